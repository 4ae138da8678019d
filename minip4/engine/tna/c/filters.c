/* Low-pass filters, random early detection (WRED) and math units of TNA programs. They use integers
 * only, so that results do not depend on the processor. */
#include "filters.h"

#include "program.h"

#define ONE (UINT64_C(1) << 62)                     /* numbers from 0 to 1 have 62 bits after the point */
#define ONE_BY_E UINT64_C(0x178b56362cef37c7)        /* e^-1 */
enum { TERMS = 16, MAX_EXPONENT = 44 /* e^-44 < 2^-62 */, PPM = 1000000 };

static uint64_t product(uint64_t a, uint64_t b)
{
    return (uint64_t)((u128)a * b >> 62);
}

/* Return e^-(time / constant). */
static uint64_t decay(uint64_t time, uint64_t constant)
{
    if (!constant || time / constant >= MAX_EXPONENT)
        return 0;
    uint64_t fraction = (uint64_t)(((u128)(time % constant) << 62) / constant), result = ONE;
    for (unsigned i = TERMS; i; i--) /* Horner's method for the series of e^-fraction */
        result = ONE - product(fraction, result) / i;
    for (uint64_t i = time / constant; i; i--)
        result = product(result, ONE_BY_E);
    return result;
}

uint64_t tna_filter(struct tna_filter *filter, const struct tna_lpf *lpf, uint64_t sample,
                    uint64_t now_ns)
{
    uint64_t time = now_ns > filter->time_ns ? now_ns - filter->time_ns : 0;
    uint64_t target = sample << 32;
    if (target > filter->average)
        filter->average = target - product(target - filter->average, decay(time, lpf->gain_ns));
    else
        filter->average = target + product(filter->average - target, decay(time, lpf->decay_ns));
    filter->time_ns = now_ns;
    return (filter->average >> 32) + (filter->average >> 31 & 1);
}

bool tna_wred(struct tna_filter *filter, const struct tna_wred *wred, uint64_t sample,
              uint64_t now_ns, uint64_t random[4])
{
    const struct tna_lpf lpf = {wred->time_constant_ns, wred->time_constant_ns};
    uint64_t average = tna_filter(filter, &lpf, sample, now_ns);
    uint64_t low = wred->min_threshold, high = wred->max_threshold;
    if (!high || average < low)
        return false;
    if (average >= high)
        return true;
    u128 threshold = (u128)(average - low) * wred->max_drop_ppm;
    return (u128)random_between(random, 0, PPM - 1) * (high - low) < threshold;
}

uint64_t tna_math(uint64_t x, bool inverts, int shift, int scale, const uint8_t table[16])
{
    int exponent = x ? 63 - __builtin_clzll(x) : 0;
    unsigned first = (unsigned)(exponent < 3 ? x << (3 - exponent) : x >> (exponent - 3));
    if (shift < 0) { /* an odd exponent becomes even */
        first >>= exponent & 1;
        exponent = (exponent + 1) / 2;
    } else {
        exponent <<= shift;
    }
    int total = scale + (inverts ? -exponent : exponent);
    uint64_t value = table[first];
    if (total >= 64 || total <= -64)
        return 0;
    return total < 0 ? value >> -total : value << total;
}
