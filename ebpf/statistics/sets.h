// Statistics of the set of flows, of one hash each: distinct ones, rarity, similarity, norms.
#pragma once
#include "key.h"
#include "windows.h"

// HyperLogLog (Flajolet et al., AofA 2007): the greatest rank of the hashes of each register.
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
    __u64 rest = hash >> PRECISION; // 64 - PRECISION bits: its leading zeros, and one, are the rank
    __u8 rank = rest ? 64 - PRECISION - highest_bit(rest) : 64 - PRECISION + 1;
    __u8 *greatest = &registers->ranks[hash & ((1 << PRECISION) - 1)];
    if (*greatest < rank)
        *greatest = rank;
}

// Min-wise hashing, of one permutation: of each bucket's flows the one with the least hash, and
// how many packets it had. It was there since its first one: a least hash is never undone.
#define BUCKET_BITS 10
struct least {
    __u64 hash, count; // 0, 0: no flow yet
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

// Count sketch (Charikar, Chen, Farach-Colton, ICALP 2002): in each row a flow adds its sign to
// one counter. A row's sum of squares estimates F2 (Alon, Matias, Szegedy, STOC 1996).
#define SKETCH_ROWS 5
#define SKETCH_BITS 9 // of a column; with the sign 50 bits of the hash in all
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
