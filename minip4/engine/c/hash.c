/* Hash algorithms: CRCs by table, the internet checksum, XOR folds, xxHash64. */
#include "hash.h"

const struct crc_custom crc_custom[CRC_CUSTOMS] = {
    [CRC8_CUSTOM] = {8, 0x07, 0, 0, false, false},
    [CRC16_CUSTOM] = {16, 0x8005, 0, 0, true, true},
    [CRC32_CUSTOM] = {32, 0x04c11db7, 0xffffffff, 0xffffffff, true, true},
    [CRC64_CUSTOM] = {64, 0x1b, 0, 0, true, true},
};

static uint32_t crc32_table[8][256];
static uint16_t crc16_table[256], ccitt_table[256];

__attribute__((constructor)) static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc32 = i, crc16 = i, ccitt = i << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc32 = crc32 >> 1 ^ (crc32 & 1 ? 0xedb88320 : 0);
            crc16 = crc16 >> 1 ^ (crc16 & 1 ? 0xa001 : 0);
            ccitt = ccitt << 1 ^ (ccitt & 0x8000 ? 0x1021 : 0);
        }
        crc32_table[0][i] = crc32;
        crc16_table[i] = (uint16_t)crc16;
        ccitt_table[i] = (uint16_t)ccitt;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t before = crc32_table[slice - 1][i];
            crc32_table[slice][i] = before >> 8 ^ crc32_table[0][before & 0xff];
        }
}

uint64_t hash_crc16(const uint8_t *data, size_t length)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < length; i++)
        crc = (uint16_t)(crc >> 8 ^ crc16_table[(crc ^ data[i]) & 0xff]);
    return crc;
}

uint64_t hash_ccitt(const uint8_t *data, size_t length)
{
    uint16_t crc = 0xffff;
    for (size_t i = 0; i < length; i++)
        crc = (uint16_t)(crc << 8 ^ ccitt_table[crc >> 8 ^ data[i]]);
    return crc;
}

uint64_t hash_crc32(const uint8_t *data, size_t length)
{
    uint32_t crc = 0xffffffff;
    for (; length >= 8; data += 8, length -= 8) { /* slicing-by-8 algorithm */
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = crc32_table[7][low & 0xff] ^ crc32_table[6][low >> 8 & 0xff] ^
              crc32_table[5][low >> 16 & 0xff] ^ crc32_table[4][low >> 24] ^
              crc32_table[3][high & 0xff] ^ crc32_table[2][high >> 8 & 0xff] ^
              crc32_table[1][high >> 16 & 0xff] ^ crc32_table[0][high >> 24];
    }
    for (; length; data++, length--)
        crc = crc >> 8 ^ crc32_table[0][(crc ^ *data) & 0xff];
    return ~crc;
}

void put_bits(uint8_t *buffer, size_t bits, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++) {
        size_t at = bits + i;
        uint8_t bit = (uint8_t)(0x80 >> at % 8);
        bool is_set = value >> (width - 1 - i) & 1;
        if (at % 8 == 0)
            buffer[at / 8] = 0;
        buffer[at / 8] |= is_set ? bit : 0;
    }
}

static uint64_t reflect(uint64_t value, unsigned width)
{
    uint64_t result = 0;
    for (unsigned i = 0; i < width; i++)
        result |= (value >> i & 1) << (width - 1 - i);
    return result;
}

uint64_t hash_crc_custom(const struct crc_custom *crc, const uint8_t *data, size_t length)
{
    uint64_t top = UINT64_C(1) << (crc->width - 1), mask = top | (top - 1), rest = crc->initial;
    for (size_t i = 0; i < length; i++) {
        uint64_t byte = crc->data_reflected ? reflect(data[i], 8) : data[i];
        rest ^= byte << (crc->width - 8);
        for (int bit = 0; bit < 8; bit++)
            rest = (rest << 1 ^ (rest & top ? crc->polynomial : 0)) & mask;
    }
    if (crc->remainder_reflected)
        rest = reflect(rest, crc->width);
    return (rest ^ crc->final_xor) & mask;
}

uint64_t sum_bytes(const uint8_t *data, size_t length)
{
    uint64_t sum = 0;
    for (; length >= 8; data += 8, length -= 8)
        sum = sum_add(sum, load_be(data, 8));
    uint64_t tail = 0;
    for (size_t i = 0; i < length; i++)
        tail |= (uint64_t)data[i] << (56 - 8 * i);
    return sum_add(sum, tail);
}

uint64_t hash_csum16(const uint8_t *data, size_t length)
{
    return (uint16_t)~sum_fold(sum_bytes(data, length));
}

/* Return the XOR of big-endian words of `bytes` bytes each; the last word is padded with zeros. */
static uint64_t xor_words(const uint8_t *data, size_t length, unsigned bytes)
{
    uint64_t result = 0;
    for (size_t i = 0; i < length; i++)
        result ^= (uint64_t)data[i] << 8 * (bytes - 1 - i % bytes);
    return result;
}

uint64_t hash_xor16(const uint8_t *data, size_t length)
{
    return xor_words(data, length, 2);
}

uint64_t hash_xor32(const uint8_t *data, size_t length)
{
    return xor_words(data, length, 4);
}

uint64_t hash_identity(const uint8_t *data, size_t length)
{
    uint64_t result = 0;
    for (size_t i = 0; i < length && i < 8; i++)
        result = result << 8 | data[i];
    return result;
}

/* --- xxHash64, seed 0 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) ------------------------ */

#define PRIME1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME3 UINT64_C(0x165667B19E3779F9)
#define PRIME4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t little(const uint8_t *data, unsigned bytes)
{
    uint64_t value = 0;
    memcpy(&value, data, bytes);
    return value;
}

static uint64_t xx_round(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * PRIME2, 31) * PRIME1;
}

static uint64_t xx_lanes(const uint8_t **data, const uint8_t *end)
{
    uint64_t lane[4] = {PRIME1 + PRIME2, PRIME2, 0, -PRIME1};
    for (; end - *data >= 32; *data += 32)
        for (int i = 0; i < 4; i++)
            lane[i] = xx_round(lane[i], little(*data + 8 * i, 8));
    uint64_t hash = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) +
                    rotate(lane[3], 18);
    for (int i = 0; i < 4; i++)
        hash = (hash ^ xx_round(0, lane[i])) * PRIME1 + PRIME4;
    return hash;
}

uint64_t hash_xxh64(const uint8_t *data, size_t length)
{
    const uint8_t *end = data + length;
    uint64_t hash = length >= 32 ? xx_lanes(&data, end) : PRIME5;
    hash += length;
    for (; end - data >= 8; data += 8)
        hash = rotate(hash ^ xx_round(0, little(data, 8)), 27) * PRIME1 + PRIME4;
    for (; end - data >= 4; data += 4)
        hash = rotate(hash ^ little(data, 4) * PRIME1, 23) * PRIME2 + PRIME3;
    for (; data < end; data++)
        hash = rotate(hash ^ *data * PRIME5, 11) * PRIME1;
    hash = (hash ^ hash >> 33) * PRIME2;
    hash = (hash ^ hash >> 29) * PRIME3;
    return hash ^ hash >> 32;
}
