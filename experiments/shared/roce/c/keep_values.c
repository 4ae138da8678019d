/* Stores Key-Write reports of DTA in a hash table, which has the last value of each key. */
#include "key_write.h"

enum { ENTRIES = 1 << 16 };

const unsigned report_bytes = KEY_WRITE_BYTES;

static struct {
    uint8_t key[KEY], value[DATA];
    uint32_t is_used;
} entries[ENTRIES];

void keep(const uint8_t *report, uint64_t number)
{
    const uint8_t *key = report + KEY_AT;
    uint32_t at = place_of(key, KEY, ENTRIES);

    (void)number;
    if (!is_key_write(report))
        return;
    while (entries[at].is_used && memcmp(entries[at].key, key, KEY))
        at = (at + 1) % ENTRIES;
    if (!entries[at].is_used) {
        memcpy(entries[at].key, key, KEY);
        entries[at].is_used = 1;
    }
    memcpy(entries[at].value, report + DATA_AT, DATA);
}
