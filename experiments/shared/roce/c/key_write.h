/* A Key-Write report of DTA with one word of data (docs/reference/dta.md), as a collector finds it in a datagram. */
#pragma once

#include "keep.h"

enum {
    VERSION_AT = 0, VERSION = 1, OPCODE_AT = 1, KEY_WRITE = 1,
    KEY_AT = 12, KEY = 16, DATA_AT = 28, DATA = 4, KEY_WRITE_BYTES = 32
};

static inline int is_key_write(const uint8_t *report)
{
    return report[VERSION_AT] >> 4 == VERSION && report[OPCODE_AT] == KEY_WRITE;
}
