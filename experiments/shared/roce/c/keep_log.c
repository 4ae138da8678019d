/* Stores Key-Write reports of DTA in a log. An index points to the last report of each key, and
 * each report points to the previous report of its key. So a reader finds all reports of a key in
 * the log. */
#include "key_write.h"

enum { ENTRIES = 1 << 16, REPORTS = 1 << 16 };

const unsigned report_bytes = KEY_WRITE_BYTES;

static struct {
    uint8_t key[KEY], value[DATA];
    /* number of the previous report of the key, modulo 2^32, counted from 1; 0 means none */
    uint32_t before;
} reports[REPORTS];

static struct {
    uint8_t key[KEY];
    uint32_t last, count; /* number of the last report, and number of all reports */
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
