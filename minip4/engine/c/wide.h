/* Two's complement numbers of WIDE_LIMBS words, for programs with expressions of more than 128
 * bits. The generated code defines WIDE_LIMBS before it includes this file. */
#ifndef MINIP4_WIDE_H
#define MINIP4_WIDE_H

#include "bits.h"

/* Not inline: the C code of such programs should compile fast, and such programs are rare. */
#define WIDE static __attribute__((noinline, unused))

struct wide {
    uint64_t limb[WIDE_LIMBS]; /* lowest limb first */
};

WIDE bool wide_is_negative(struct wide a)
{
    return a.limb[WIDE_LIMBS - 1] >> 63;
}

/* Extend the low words of a number by zeros, or by ones if it is negative. */
WIDE struct wide wide_words(const uint64_t *limb, unsigned count, bool is_negative)
{
    struct wide result;
    for (unsigned i = 0; i < WIDE_LIMBS; i++)
        result.limb[i] = i < count ? limb[i] : is_negative ? UINT64_MAX : 0;
    return result;
}

WIDE struct wide wide_from_u64(uint64_t value)
{
    return wide_words(&value, 1, false);
}

WIDE struct wide wide_from_i64(uint64_t value)
{
    return wide_words(&value, 1, value >> 63);
}

WIDE struct wide wide_from_u128(u128 value)
{
    return wide_words((const uint64_t[]){(uint64_t)value, (uint64_t)(value >> 64)}, 2, false);
}

WIDE struct wide wide_from_i128(u128 value)
{
    return wide_words((const uint64_t[]){(uint64_t)value, (uint64_t)(value >> 64)}, 2,
                      (bool)(value >> 127));
}

WIDE uint64_t wide_low64(struct wide a)
{
    return a.limb[0];
}

WIDE u128 wide_low128(struct wide a)
{
    return (u128)a.limb[WIDE_LIMBS > 1] << 64 | a.limb[0];
}

WIDE struct wide wide_add(struct wide a, struct wide b)
{
    u128 carry = 0;
    for (unsigned i = 0; i < WIDE_LIMBS; i++) {
        carry += (u128)a.limb[i] + b.limb[i];
        a.limb[i] = (uint64_t)carry;
        carry >>= 64;
    }
    return a;
}

WIDE struct wide wide_not(struct wide a)
{
    for (unsigned i = 0; i < WIDE_LIMBS; i++)
        a.limb[i] = ~a.limb[i];
    return a;
}

WIDE struct wide wide_sub(struct wide a, struct wide b)
{
    return wide_add(wide_add(a, wide_not(b)), wide_from_u64(1));
}

WIDE struct wide wide_mul(struct wide a, struct wide b)
{
    struct wide result = wide_from_u64(0);
    for (unsigned i = 0; i < WIDE_LIMBS; i++) {
        u128 carry = 0;
        for (unsigned j = 0; i + j < WIDE_LIMBS; j++) {
            carry += (u128)a.limb[i] * b.limb[j] + result.limb[i + j];
            result.limb[i + j] = (uint64_t)carry;
            carry >>= 64;
        }
    }
    return result;
}

WIDE struct wide wide_and(struct wide a, struct wide b)
{
    for (unsigned i = 0; i < WIDE_LIMBS; i++)
        a.limb[i] &= b.limb[i];
    return a;
}

WIDE struct wide wide_or(struct wide a, struct wide b)
{
    for (unsigned i = 0; i < WIDE_LIMBS; i++)
        a.limb[i] |= b.limb[i];
    return a;
}

WIDE struct wide wide_xor(struct wide a, struct wide b)
{
    for (unsigned i = 0; i < WIDE_LIMBS; i++)
        a.limb[i] ^= b.limb[i];
    return a;
}

WIDE struct wide shift_left_wide(struct wide a, uint64_t amount)
{
    struct wide result = wide_from_u64(0);
    if (amount >= 64 * WIDE_LIMBS)
        return result;
    unsigned words = (unsigned)(amount / 64), bits = amount % 64;
    for (unsigned i = words; i < WIDE_LIMBS; i++) {
        result.limb[i] = a.limb[i - words] << bits;
        if (bits && i > words)
            result.limb[i] |= a.limb[i - words - 1] >> (64 - bits);
    }
    return result;
}

WIDE struct wide shift_right_i_wide(struct wide a, uint64_t amount)
{
    uint64_t sign = wide_is_negative(a) ? UINT64_MAX : 0;
    struct wide result = wide_words(&sign, 1, sign);
    if (amount >= 64 * WIDE_LIMBS)
        return result;
    unsigned words = (unsigned)(amount / 64), bits = amount % 64;
    for (unsigned i = 0; i + words < WIDE_LIMBS; i++) {
        uint64_t next = i + words + 1 < WIDE_LIMBS ? a.limb[i + words + 1] : sign;
        result.limb[i] = a.limb[i + words] >> bits | (bits ? next << (64 - bits) : 0);
    }
    return result;
}

/* Return a number below, equal to or above zero if a is below, equal to or above b. */
WIDE int wide_compare(struct wide a, struct wide b)
{
    if (wide_is_negative(a) != wide_is_negative(b))
        return wide_is_negative(a) ? -1 : 1;
    for (unsigned i = WIDE_LIMBS; i-- > 0;)
        if (a.limb[i] != b.limb[i])
            return a.limb[i] < b.limb[i] ? -1 : 1;
    return 0;
}

WIDE bool wide_is_zero(struct wide a)
{
    return wide_compare(a, wide_from_u64(0)) == 0;
}

/* Divide nonnegative numbers bit by bit. This is slow, but such programs are rare. */
WIDE struct wide divide_wide(struct wide a, struct wide b)
{
    struct wide quotient = wide_from_u64(0), rest = wide_from_u64(0);
    if (wide_is_zero(b))
        return quotient;
    for (unsigned i = 64 * WIDE_LIMBS; i-- > 0;) {
        rest = shift_left_wide(rest, 1);
        rest.limb[0] |= a.limb[i / 64] >> i % 64 & 1;
        if (wide_compare(rest, b) >= 0) {
            rest = wide_sub(rest, b);
            quotient.limb[i / 64] |= UINT64_C(1) << i % 64;
        }
    }
    return quotient;
}

WIDE struct wide modulo_wide(struct wide a, struct wide b)
{
    return wide_sub(a, wide_mul(divide_wide(a, b), b));
}

WIDE struct wide clamp_i_wide(struct wide a, struct wide low, struct wide high)
{
    return wide_compare(a, low) < 0 ? low : wide_compare(a, high) > 0 ? high : a;
}

WIDE struct wide sign_extend_wide(struct wide a, unsigned width)
{
    unsigned spare = 64 * WIDE_LIMBS - width;
    return shift_right_i_wide(shift_left_wide(a, spare), spare);
}

WIDE uint64_t amount_wide(struct wide a)
{
    for (unsigned i = 1; i < WIDE_LIMBS; i++)
        if (a.limb[i])
            return UINT64_MAX;
    return a.limb[0];
}

WIDE uint64_t amount_signed_wide(struct wide a)
{
    return amount_wide(a);
}

/* Store the low `width` bits as limbs. */
WIDE void store_wide(uint64_t *limb, struct wide a, unsigned width)
{
    for (unsigned i = 0; 64 * i < width; i++)
        limb[i] = low_bits(a.limb[i], width - 64 * i < 64 ? width - 64 * i : 64);
}

#endif
