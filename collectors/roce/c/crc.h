/* CRC-32 (0x04C11DB7, reflected). The iCRC is based on it. */
#ifndef COLLECTORS_ROCE_CRC_H
#define COLLECTORS_ROCE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The CRC register after 8 bytes in which all bits are ones. These bytes replace the LRH (IBTA
 * A16.5.1). */
static const uint32_t crc_after_lrh = 0xdebb20e3;

enum { CRC_MASK = 64, CRC_STEP = 16 }; /* numbers of bytes */

/* Mask of the first bytes of a packet. Bits that are ones in the mask count as ones in the CRC. */
struct crc_mask {
    uint8_t bytes[CRC_MASK + CRC_STEP];
};

/* Returns the CRC register after `count` more bytes. The register is complemented neither before
 * nor after these bytes. */
uint32_t crc_add(uint32_t crc, const uint8_t *bytes, size_t count, const struct crc_mask *mask);

#endif
