// Statistics of packet lengths: a histogram for quantiles, and a sample for clustering.
#pragma once
#include "key.h"
#include "windows.h"

// Log-linear histogram. Each value below 2^LINEAR has its own class. Above, there are 2^LINEAR
// classes per power of two. So the width of a class is at most its smallest value times 2^-LINEAR.
#define LINEAR 5
#define LENGTH_BITS 20 // at tc, a packet may contain many segments (GSO; for IPv6 up to 512 KiB)
#define CLASSES ((LENGTH_BITS - LINEAR + 1) << LINEAR)
struct histogram {
    __u64 counts[CLASSES];
};
BUFFERS(lengths, struct histogram);

static __always_inline void add_quantiles(__u32 buffer, __u32 length)
{
    struct histogram *histogram = bpf_map_lookup_elem(&lengths, &buffer);
    __u32 power = highest_bit(length), class = length;
    if (power >= LINEAR)
        class = ((power - LINEAR) << LINEAR) + (length >> (power - LINEAR));
    if (histogram && class < CLASSES)
        histogram->counts[class]++;
}

// Uniform sample of the packets in a window. The n-th packet replaces a packet of the sample with
// probability SAMPLE / n (algorithm R: Vitter, ACM TOMS 1985).
#define SAMPLE 512
struct sample {
    __u64 seen;
    __u32 lengths[SAMPLE];
};
BUFFERS(sample, struct sample);

static __always_inline void take_sample(__u32 buffer, __u32 length, __u64 thrown)
{
    struct sample *taken = bpf_map_lookup_elem(&sample, &buffer);
    if (!taken)
        return;
    __u64 place = taken->seen++;
    if (place >= SAMPLE)
        place = (thrown >> 32) * taken->seen >> 32;
    if (place < SAMPLE)
        taken->lengths[place] = length;
}
