/* Interface between take.c and a store (one of keep_*.c), which are linked to one program. Also the
 * hash function of the stores. */
#pragma once

#include <stdint.h>
#include <string.h>

enum { REPORT = 64 }; /* max length of a report in bytes */

extern const unsigned report_bytes; /* report length; datagrams of other lengths are not reports */

/* Stores a report; `number` reports came before it. */
void keep(const uint8_t *report, uint64_t number);

/* Returns the hash of a key (at least 8 bytes): an index below `entries`, a power of two. */
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
