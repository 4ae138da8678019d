/* Low-pass filters, random early detection (WRED) and math units of TNA programs. */
#ifndef MINIP4_TNA_FILTERS_H
#define MINIP4_TNA_FILTERS_H

#include <stdbool.h>
#include <stdint.h>

/* The limbs of a filter's state, as a register stores them. */
struct tna_filter {
    uint64_t average; /* 32 bits before the binary point, 32 after it */
    uint64_t time_ns; /* of the last sample */
};

/* The settings, with the last field of minip4_lpf_t and minip4_wred_t first. */
struct tna_lpf {
    uint64_t decay_ns, gain_ns;
};
struct tna_wred {
    uint64_t max_drop_ppm, max_threshold, min_threshold, time_constant_ns;
};

/* Add a sample of up to 32 bits, and return the rounded average. The difference between the average
 * and the sample decays with the time constant: gain_ns for a sample above the average, else
 * decay_ns; 0 means that the average is the sample. */
uint64_t tna_filter(struct tna_filter *filter, const struct tna_lpf *lpf, uint64_t sample,
                    uint64_t now_ns);

/* Add a sample, and return whether to drop the packet. It is never dropped if the average is below
 * the lower threshold, and always if the average is above the upper threshold. Between them, the
 * probability increases linearly from 0 to max_drop_ppm / 1,000,000. An upper threshold of 0 means
 * that no packet is dropped. */
bool tna_wred(struct tna_filter *filter, const struct tna_wred *wred, uint64_t sample,
              uint64_t now_ns, uint64_t random[4]);

/* Return a function of x by the table; minip4.compiler.tna.externs.math_units describes it. */
uint64_t tna_math(uint64_t x, bool inverts, int shift, int scale, const uint8_t table[16]);

#endif
