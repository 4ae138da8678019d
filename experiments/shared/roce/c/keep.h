/* What take.c does with each report that comes: one of keep_*.c, and hashing, which all of them do. */
#pragma once

#include <stdint.h>
#include <string.h>

enum { REPORT = 64 }; /* bytes that one has at most */

extern const unsigned report_bytes; /* of a report; what has others is none */

/* `number`: of those that came before it */
void keep(const uint8_t *report, uint64_t number);

/* Of a key of 8 bytes or more, among `entries`, a power of two. */
static inline uint32_t place_of(const uint8_t *key, unsigned bytes, uint32_t entries)
{
    uint64_t sum = 0, word;

    for (unsigned at = 0; at + 8 < bytes; at += 8) {
        memcpy(&word, key + at, sizeof word);
        sum = (sum ^ word) * 0x9fb21c651e98df25u;
        sum ^= sum >> 32;
    }
    memcpy(&word, key + bytes - 8, sizeof word);
    return (uint32_t)((sum ^ word) * 0x9fb21c651e98df25u >> 40) & (entries - 1);
}
