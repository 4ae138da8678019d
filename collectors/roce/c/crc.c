/* CRC-32. If the CPU has carry-less multiplication, 16 bytes are processed at a time ("Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction", Gopal et al., 2009). The
 * remaining bytes are processed with eight tables ("slicing by 8", Kounavis and Berry, 2008). */
#include "crc.h"

#include <string.h>
#ifdef __PCLMUL__
#include <immintrin.h>
#endif

enum { POLYNOMIAL_HIGH = 0xedb8, POLYNOMIAL_LOW = 0x8320, SLICES = 8 };

static uint32_t tables[SLICES][256];

/* tables[n][b] is the value of the register after byte b and n zero bytes. */
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

/* Returns 8 bytes of the mask, from byte `at` on. Bytes after the end of the mask are 0. */
static const uint8_t *mask_at(const struct crc_mask *mask, size_t at)
{
    return mask->bytes + (at < CRC_MASK ? at : CRC_MASK);
}

static uint32_t add_word(uint32_t crc, uint64_t word)
{
    word ^= crc;
    return tables[7][word & 0xff] ^ tables[6][word >> 8 & 0xff] ^ tables[5][word >> 16 & 0xff] ^
           tables[4][word >> 24 & 0xff] ^ tables[3][word >> 32 & 0xff] ^
           tables[2][word >> 40 & 0xff] ^ tables[1][word >> 48 & 0xff] ^ tables[0][word >> 56];
}

/* Adds bytes to the register, from byte `at` on. */
static uint32_t add_by_tables(uint32_t crc, const uint8_t *bytes, size_t at, size_t count,
                              const struct crc_mask *mask)
{
    for (; count - at >= SLICES; at += SLICES) {
        uint64_t word, ones;

        memcpy(&word, bytes + at, sizeof word);
        memcpy(&ones, mask_at(mask, at), sizeof ones);
        crc = add_word(crc, word | ones);
    }
    for (; at < count; at++)
        crc = crc >> 8 ^ tables[0][(crc ^ (bytes[at] | *mask_at(mask, at))) & 0xff];
    return crc;
}

#ifdef __PCLMUL__
static __m128i load(const uint8_t *bytes)
{
    return _mm_loadu_si128((const void *)bytes);
}

/* Multiplies 16 bytes by their weight 16 bytes later. The weight is x^(128+32) mod P for the first
 * eight bytes, and x^(128-32) mod P for the others. Both weights are reflected and multiplied by
 * x. */
static __m128i fold(__m128i block)
{
    const __m128i powers = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);

    return _mm_clmulepi64_si128(block, powers, 0x00) ^ _mm_clmulepi64_si128(block, powers, 0x11);
}

uint32_t crc_add(uint32_t crc, const uint8_t *bytes, size_t count, const struct crc_mask *mask)
{
    size_t at = CRC_STEP;
    uint64_t words[2];
    __m128i block;

    if (count < CRC_STEP)
        return add_by_tables(crc, bytes, 0, count, mask);
    block = (load(bytes) | load(mask->bytes)) ^ _mm_cvtsi32_si128((int)crc);
    for (; count - at >= CRC_STEP; at += CRC_STEP)
        block = fold(block) ^ (load(bytes + at) | load(mask_at(mask, at)));
    _mm_storeu_si128((void *)words, block);
    return add_by_tables(add_word(add_word(0, words[0]), words[1]), bytes, at, count, mask);
}
#else
uint32_t crc_add(uint32_t crc, const uint8_t *bytes, size_t count, const struct crc_mask *mask)
{
    return add_by_tables(crc, bytes, 0, count, mask);
}
#endif
