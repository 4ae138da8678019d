/* Access to big-endian numbers in packets. The numbers need not be aligned. */
#ifndef COLLECTORS_NUMBERS_H
#define COLLECTORS_NUMBERS_H

#include <stdint.h>
#include <string.h>

static inline uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t get24(const uint8_t *at)
{
    return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

static inline uint32_t get32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t get64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return __builtin_bswap64(value);
}

static inline void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void put24(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 16);
    put16(at + 1, value);
}

static inline void put64(uint8_t *at, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(at, &value, sizeof value);
}

#endif
