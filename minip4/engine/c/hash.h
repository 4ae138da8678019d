/* Hash algorithms of v1model and simple_switch, over a buffer of bytes. */
#ifndef MINIP4_HASH_H
#define MINIP4_HASH_H

#include "bits.h"

uint64_t hash_crc16(const uint8_t *data, size_t length);  /* CRC-16/ARC */
uint64_t hash_crc32(const uint8_t *data, size_t length);  /* CRC-32 of Ethernet */
uint64_t hash_ccitt(const uint8_t *data, size_t length);  /* CRC-16/CCITT-FALSE */
/* the internet checksum (RFC 1071), complemented */
uint64_t hash_csum16(const uint8_t *data, size_t length);
uint64_t hash_xor16(const uint8_t *data, size_t length);
uint64_t hash_xor32(const uint8_t *data, size_t length);
/* the first 8 bytes, as a big-endian number */
uint64_t hash_identity(const uint8_t *data, size_t length);
uint64_t hash_xxh64(const uint8_t *data, size_t length);

/* The parameters of a custom CRC; the defaults are those of simple_switch. */
struct crc_custom {
    unsigned width;
    uint64_t polynomial, initial, final_xor;
    bool data_reflected, remainder_reflected;
};

enum { CRC8_CUSTOM, CRC16_CUSTOM, CRC32_CUSTOM, CRC64_CUSTOM, CRC_CUSTOMS };

extern const struct crc_custom crc_custom[CRC_CUSTOMS];

uint64_t hash_crc_custom(const struct crc_custom *crc, const uint8_t *data, size_t length);

/* Store the low `width` (1 to 64) bits of a value `bits` bits after the start of the buffer. */
void put_bits(uint8_t *buffer, size_t bits, uint64_t value, unsigned width);

/* Add to a one's complement sum. Folding the sum of 64-bit values gives the same result as a sum of
 * 16-bit words. */
ALWAYS_INLINE uint64_t sum_add(uint64_t sum, uint64_t value)
{
    sum += value;
    return sum + (sum < value);
}

ALWAYS_INLINE uint16_t sum_fold(uint64_t sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* Return the sum of bytes as big-endian 16-bit words; the last word is padded with a zero byte. */
uint64_t sum_bytes(const uint8_t *data, size_t length);

#endif
