/* CRC-32 (0x04C11DB7, reflected), of which the iCRC is made. */
#ifndef COLLECTORS_ROCE_CRC_H
#define COLLECTORS_ROCE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The register after the 8 bytes of ones that stand for an LRH (IBTA A16.5.1). */
static const uint32_t crc_after_lrh = 0xdebb20e3;

enum { CRC_MASK = 64, CRC_STEP = 16 }; /* bytes */

/* Bits that count as ones, of the first bytes; zeros stand for those of the bytes after them. */
struct crc_mask {
    uint8_t bytes[CRC_MASK + CRC_STEP];
};

/* The register after more bytes; no complement, neither before nor after. */
uint32_t crc_add(uint32_t crc, const uint8_t *bytes, size_t count, const struct crc_mask *mask);

#endif
