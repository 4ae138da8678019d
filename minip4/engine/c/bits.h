/* Operations on words of 64 and 128 bits for generated code: big-endian loads and stores of any
 * length, and arithmetic with defined results for all operands. */
#ifndef MINIP4_BITS_H
#define MINIP4_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef unsigned __int128 u128;

#ifdef __SANITIZE_ADDRESS__
/* Not inline, so that the checks of sanitizers are compiled only once. */
#define ALWAYS_INLINE static __attribute__((noinline, unused))
#else
#define ALWAYS_INLINE static inline __attribute__((always_inline, unused))
#endif

/* Rotate to the left by 1 to 63 bits. */
ALWAYS_INLINE uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/* Load `bytes` bytes (1 to 8, a constant) as a big-endian number. */
ALWAYS_INLINE uint64_t load_be(const uint8_t *at, unsigned bytes)
{
    uint64_t w8;
    uint32_t w4;
    uint16_t w2;
    switch (bytes) {
    case 1:
        return at[0];
    case 2:
        memcpy(&w2, at, 2);
        return __builtin_bswap16(w2);
    case 3:
        return load_be(at, 2) << 8 | at[2];
    case 4:
        memcpy(&w4, at, 4);
        return __builtin_bswap32(w4);
    case 5:
        return load_be(at, 4) << 8 | at[4];
    case 6:
        return load_be(at, 4) << 16 | load_be(at + 4, 2);
    case 7:
        return load_be(at, 4) << 24 | load_be(at + 3, 4);
    default:
        memcpy(&w8, at, 8);
        return __builtin_bswap64(w8);
    }
}

/* Store the low `bytes` bytes (1 to 8, a constant) of a number in big-endian order. */
ALWAYS_INLINE void store_be(uint8_t *at, uint64_t value, unsigned bytes)
{
    uint64_t w8 = __builtin_bswap64(value << (64 - 8 * bytes));
    uint32_t w4;
    uint16_t w2;
    switch (bytes) {
    case 1:
        at[0] = (uint8_t)value;
        break;
    case 2:
        w2 = __builtin_bswap16((uint16_t)value);
        memcpy(at, &w2, 2);
        break;
    case 4:
        w4 = __builtin_bswap32((uint32_t)value);
        memcpy(at, &w4, 4);
        break;
    case 6:
        w4 = __builtin_bswap32((uint32_t)(value >> 16));
        w2 = __builtin_bswap16((uint16_t)value);
        memcpy(at, &w4, 4);
        memcpy(at + 4, &w2, 2);
        break;
    case 8:
        memcpy(at, &w8, 8);
        break;
    default:
        memcpy(at, &w8, bytes);
    }
}

ALWAYS_INLINE uint64_t low_bits(uint64_t value, unsigned width)
{
    return width >= 64 ? value : value & ((UINT64_C(1) << width) - 1);
}

/* Load `width` bits (0 to 64) that start `bit` bits after `at`; both are constants. */
ALWAYS_INLINE uint64_t load_bits(const uint8_t *at, unsigned bit, unsigned width)
{
    if (!width)
        return 0;
    unsigned first = bit / 8, last = (bit + width - 1) / 8, after = 7 - (bit + width - 1) % 8;
    if (last - first < 8)
        return low_bits(load_be(at + first, last - first + 1) >> after, width);
    uint64_t high = load_be(at + first, 8);
    return low_bits(high << (8 - after) | at[last] >> after, width);
}

/* Store bits, as the inverse of load_bits(); adjacent bits do not change. */
ALWAYS_INLINE void store_bits(uint8_t *at, unsigned bit, unsigned width, uint64_t value)
{
    if (!width)
        return;
    unsigned first = bit / 8, last = (bit + width - 1) / 8, after = 7 - (bit + width - 1) % 8;
    unsigned bytes = last - first + 1;
    if (width == 8 * bytes) {
        store_be(at + first, value, bytes);
    } else if (bytes <= 8) {
        uint64_t mask = low_bits(UINT64_MAX, width) << after;
        uint64_t old = load_be(at + first, bytes);
        store_be(at + first, (old & ~mask) | (value << after & mask), bytes);
    } else {
        unsigned tail = 8 - after; /* number of bits in the ninth byte */
        at[last] = (uint8_t)((at[last] & ((1u << after) - 1)) | (value << after));
        store_bits(at, bit, width - tail, value >> tail);
    }
}

/* --- arithmetic ----------------------------------------------------------------------------- */

ALWAYS_INLINE u128 load128(const uint64_t *limb)
{
    return (u128)limb[1] << 64 | limb[0];
}

/* Store a word into a field of `width` (more than 64) bits. */
ALWAYS_INLINE void store64(uint64_t *limb, uint64_t value, unsigned width)
{
    limb[0] = value;
    for (unsigned i = 1; 64 * i < width; i++)
        limb[i] = 0;
}

/* Store the low `width` (65 to 128) bits of a value. */
ALWAYS_INLINE void store128(uint64_t *limb, u128 value, unsigned width)
{
    limb[0] = (uint64_t)value;
    limb[1] = low_bits((uint64_t)(value >> 64), width - 64);
}

ALWAYS_INLINE uint64_t sign_extend64(uint64_t value, unsigned width)
{
    return (uint64_t)((int64_t)(value << (64 - width)) >> (64 - width));
}

ALWAYS_INLINE u128 sign_extend128(u128 value, unsigned width)
{
    return (u128)((__int128)(value << (128 - width)) >> (128 - width));
}

ALWAYS_INLINE uint64_t shift_left64(uint64_t value, uint64_t amount)
{
    return amount < 64 ? value << amount : 0;
}

ALWAYS_INLINE u128 shift_left128(u128 value, uint64_t amount)
{
    return amount < 128 ? value << amount : 0;
}

ALWAYS_INLINE uint64_t shift_right_u64(uint64_t value, uint64_t amount)
{
    return amount < 64 ? value >> amount : 0;
}

ALWAYS_INLINE u128 shift_right_u128(u128 value, uint64_t amount)
{
    return amount < 128 ? value >> amount : 0;
}

ALWAYS_INLINE uint64_t shift_right_i64(uint64_t value, uint64_t amount)
{
    return (uint64_t)((int64_t)value >> (amount < 64 ? amount : 63));
}

ALWAYS_INLINE u128 shift_right_i128(u128 value, uint64_t amount)
{
    return (u128)((__int128)value >> (amount < 128 ? amount : 127));
}

/* Division by zero is undefined in P4. In this implementation, the quotient is then 0, and the
 * remainder is the dividend. */
ALWAYS_INLINE uint64_t divide64(uint64_t a, uint64_t b)
{
    return b ? a / b : 0;
}

ALWAYS_INLINE uint64_t modulo64(uint64_t a, uint64_t b)
{
    return b ? a % b : a;
}

ALWAYS_INLINE u128 divide128(u128 a, u128 b)
{
    return b ? a / b : 0;
}

ALWAYS_INLINE u128 modulo128(u128 a, u128 b)
{
    return b ? a % b : a;
}

ALWAYS_INLINE uint64_t clamp_u64(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

ALWAYS_INLINE uint64_t clamp_i64(uint64_t value, uint64_t low, uint64_t high)
{
    return (int64_t)value < (int64_t)low ? low : (int64_t)value > (int64_t)high ? high : value;
}

ALWAYS_INLINE u128 clamp_u128(u128 value, u128 low, u128 high)
{
    return value < low ? low : value > high ? high : value;
}

ALWAYS_INLINE u128 clamp_i128(u128 value, u128 low, u128 high)
{
    return (__int128)value < (__int128)low ? low : (__int128)value > (__int128)high ? high : value;
}

/* Convert a value to a shift amount or an index. Values that do not fit become the maximum, because
 * the maximum has the same effect. Negative values are undefined in P4 and count as too large. */
ALWAYS_INLINE uint64_t amount128(u128 value)
{
    return value >> 64 ? UINT64_MAX : (uint64_t)value;
}

ALWAYS_INLINE uint64_t amount_signed64(uint64_t value)
{
    return value;
}

ALWAYS_INLINE uint64_t amount_signed128(u128 value)
{
    return amount128(value);
}

/* --- header stacks -------------------------------------------------------------------------- */

/* Return an index in bounds. For an index out of bounds, return the index of the spare element
 * after the end of the array. */
ALWAYS_INLINE unsigned element(uint64_t index, unsigned size)
{
    return index < size ? (unsigned)index : size;
}

ALWAYS_INLINE unsigned last_element(unsigned next, unsigned size)
{
    return next ? next - 1 : size;
}

ALWAYS_INLINE uint64_t last_index(unsigned next)
{
    return next ? next - 1u : 0;
}

#endif
