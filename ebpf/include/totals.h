// Sums for mean and variance: numbers of packets, of bytes and of uncounted packets, and the sum of
// squared lengths.
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
