/* CRC-32 by eight tables: eight bytes a step ("slicing by 8": Kounavis, Berry, 2008). */
#include "crc.h"

#include <string.h>

enum { POLYNOMIAL_HIGH = 0xedb8, POLYNOMIAL_LOW = 0x8320, SLICES = 8 };

static uint32_t tables[SLICES][256];

/* tables[n][b]: what the byte b, with n bytes of zeros after it, does to the register. */
__attribute__((constructor)) static void make_tables(void)
{
    const uint32_t polynomial = (uint32_t)POLYNOMIAL_HIGH << 16 | POLYNOMIAL_LOW;

    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        tables[0][byte] = crc;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = tables[slice - 1][byte];

            tables[slice][byte] = before >> 8 ^ tables[0][before & 0xff];
        }
}

uint32_t crc_add(uint32_t crc, const uint8_t *bytes, size_t count)
{
    for (; count >= SLICES; bytes += SLICES, count -= SLICES) {
        uint64_t word;

        memcpy(&word, bytes, sizeof word);
        word ^= crc;
        crc = tables[7][word & 0xff] ^ tables[6][word >> 8 & 0xff] ^ tables[5][word >> 16 & 0xff] ^
              tables[4][word >> 24 & 0xff] ^ tables[3][word >> 32 & 0xff] ^
              tables[2][word >> 40 & 0xff] ^ tables[1][word >> 48 & 0xff] ^ tables[0][word >> 56];
    }
    for (; count; bytes++, count--)
        crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 0xff];
    return crc;
}
