// Sum and variance: packets, bytes and their squares; and what was not counted.
#pragma once
#include "windows.h"

struct totals {
    __u64 packets, bytes, squares;
    __u64 ignored;   // frames that have no IP header, or not all of it
    __u64 uncounted; // packets of flows for which the exact counters had no place
};
BUFFERS(totals, struct totals);

static __always_inline void add_totals(struct totals *totals, __u64 length)
{
    totals->packets++;
    totals->bytes += length;
    totals->squares += length * length;
}
