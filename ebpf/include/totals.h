// Sum and variance: numbers of packets and bytes, the sum of squared lengths, and uncounted
// packets.
#pragma once
#include "windows.h"

struct totals {
    __u64 packets, bytes, squares;
    __u64 ignored;   // frames that have no IP header, or not all of it
    __u64 uncounted; // packets of flows that did not fit in the exact counters
};
BUFFERS(totals, struct totals);

static __always_inline void add_totals(struct totals *totals, __u64 length)
{
    totals->packets++;
    totals->bytes += length;
    totals->squares += length * length;
}
