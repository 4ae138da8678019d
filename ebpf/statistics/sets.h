// Statistics of the set of flows: number of distinct flows, rarity, similarity, norms. They use one
// hash per flow.
#pragma once
#include "key.h"
#include "windows.h"

// HyperLogLog (Flajolet et al., AofA 2007). Each register stores the maximum rank of its hashes.
#define PRECISION 12
struct registers {
    __u8 ranks[1 << PRECISION];
};
BUFFERS(ranks, struct registers);

static __always_inline void count_distinct(__u32 buffer, __u64 hash)
{
    struct registers *registers = bpf_map_lookup_elem(&ranks, &buffer);
    if (!registers)
        return;
    // `rest` has 64 - PRECISION bits; the rank is the number of its leading zeros, plus one
    __u64 rest = hash >> PRECISION;
    __u8 rank = rest ? 64 - PRECISION - highest_bit(rest) : 64 - PRECISION + 1;
    __u8 *greatest = &registers->ranks[hash & ((1 << PRECISION) - 1)];
    if (*greatest < rank)
        *greatest = rank;
}

// Min-wise hashing with one permutation. Each bucket stores the flow with the smallest hash, and
// the packet count of this flow. The count is complete, because the flow is in the bucket from its
// first packet on.
#define BUCKET_BITS 10
struct least {
    __u64 hash, count; // both are 0 before the first flow
};
struct minima {
    struct least buckets[1 << BUCKET_BITS];
};
BUFFERS(leasts, struct minima);

static __always_inline void keep_least(__u32 buffer, __u64 hash)
{
    struct minima *minima = bpf_map_lookup_elem(&leasts, &buffer);
    if (!minima)
        return;
    struct least *least = &minima->buckets[hash & ((1 << BUCKET_BITS) - 1)];
    if (least->count && least->hash < hash)
        return;
    least->count = least->count && least->hash == hash ? least->count + 1 : 1;
    least->hash = hash;
}

// Count sketch (Charikar, Chen, Farach-Colton, ICALP 2002). In each row, each packet of a flow adds
// the sign of the flow to one counter. The sum of the squares of a row estimates F2 (Alon, Matias,
// Szegedy, STOC 1996).
#define SKETCH_ROWS 5
// bits of the index of a column; rows and signs together use 50 bits of the hash
#define SKETCH_BITS 9
struct sketch {
    __s64 counters[SKETCH_ROWS][1 << SKETCH_BITS];
};
BUFFERS(sketches, struct sketch);

static __always_inline void add_signs(__u32 buffer, __u64 hash)
{
    struct sketch *sketch = bpf_map_lookup_elem(&sketches, &buffer);
    if (!sketch)
        return;
    for (int row = 0; row < SKETCH_ROWS; row++) {
        __u32 bits = hash >> row * (SKETCH_BITS + 1);
        __s64 sign = bits >> SKETCH_BITS & 1 ? 1 : -1;
        sketch->counters[row][bits & ((1 << SKETCH_BITS) - 1)] += sign;
    }
}
