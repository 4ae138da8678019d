// Sums for the mean and the variance of packet lengths: the number of packets, the number of bytes,
// and the sum of squared lengths. There are also counters of frames and packets that are left out.
#pragma once
#include "windows.h"

struct totals {
    __u64 packets, bytes, squares;
    __u64 ignored;   // frames without a complete IP header
    __u64 uncounted; // packets of flows for which the exact counters had no room
};
BUFFERS(totals, struct totals);

static __always_inline void add_totals(struct totals *totals, __u64 length)
{
    totals->packets++;
    totals->bytes += length;
    totals->squares += length * length;
}
