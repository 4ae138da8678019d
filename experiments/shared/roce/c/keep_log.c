/* Key-Write reports of DTA, in a log, each with the one before of its key; an index has the last ones.
 *
 * So all that was said of a key, as long as the log goes back, is found from the last of it on. */
#include "key_write.h"

enum { ENTRIES = 1 << 16, REPORTS = 1 << 16 };

const unsigned report_bytes = KEY_WRITE_BYTES;

static struct {
    uint8_t key[KEY], value[DATA];
    uint32_t before; /* number, counted from 1, and modulo 2^32; 0: none */
} reports[REPORTS];

static struct {
    uint8_t key[KEY];
    uint32_t last, count; /* of reports */
} entries[ENTRIES];

void keep(const uint8_t *report, uint64_t number)
{
    const uint8_t *key = report + KEY_AT;
    uint32_t place = (uint32_t)(number % REPORTS), at = place_of(key, KEY, ENTRIES);

    if (!is_key_write(report))
        return;
    while (entries[at].count && memcmp(entries[at].key, key, KEY))
        at = (at + 1) % ENTRIES;
    if (!entries[at].count++)
        memcpy(entries[at].key, key, KEY);
    memcpy(reports[place].key, key, KEY);
    memcpy(reports[place].value, report + DATA_AT, DATA);
    reports[place].before = entries[at].last;
    entries[at].last = (uint32_t)number + 1;
}
