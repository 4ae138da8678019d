// Part of the two TopK methods that runs in the kernel: exact counters per window (for FREQUENT),
// and HeavyKeeper.
#pragma once
#include "key.h"
#include "totals.h"

// Exact counters: a hash table with groups of WAYS slots. A flow has a slot in its first group. If
// this group was full when the flow started, the slot is in the second group of the flow. If both
// groups were full, the flow has no slot, and a common counter counts its packets. So the count of
// a flow plus the common counter is an upper bound for the packets of the flow. The data that are
// read for each packet are in two cache lines, which precede the keys in memory.
#define WAYS 8
struct group {
    __u64 hashes[WAYS];
    __u32 counts[WAYS]; // 0: free
    __u32 unused[8];
    struct key keys[WAYS];
};
BUFFERS(counters, struct group);
const volatile __u32 groups = 1; // number of groups per buffer; it is a power of two

static __always_inline bool count_in(struct group *group, const struct key *key, __u64 hash)
{
    for (int i = 0; i < WAYS; i++) {
        if (group->counts[i] && group->hashes[i] != hash)
            continue;
        if (!group->counts[i]) {
            group->hashes[i] = hash;
            group->keys[i] = *key;
        }
        group->counts[i]++;
        return true;
    }
    return false;
}

static __always_inline void count_flow(
    __u32 buffer, const struct key *key, __u64 hash, struct totals *totals)
{
    for (int second = 0; second < 2; second++) {
        __u32 half = second ? hash >> 32 : hash, place = buffer * groups + (half & (groups - 1));
        struct group *group = bpf_map_lookup_elem(&counters, &place);
        if (group && count_in(group, key, hash))
            return;
    }
    totals->uncounted++;
}

// HeavyKeeper (Yang et al., USENIX ATC 2018, section 3). A flow has one slot per row. Packets of
// the flow that owns the slot increment the count of the slot. Each packet of another flow
// decrements this count with probability DECAY^-count. The flow whose packet decrements the count
// to 0 becomes the owner.
#define ROWS 2
struct flow {
    __u64 hash;
    __u32 count; // 0: free
    struct key key;
    __u32 unused;
};
BUFFERS(buckets, struct flow);
const volatile __u32 columns = 1; // number of columns per row
#define DECAYS 256
// DECAY^-count for each count, in units of 2^-32; larger counts are never decremented
const volatile __u32 decay[DECAYS] = {0};

static __always_inline void keep_heavy(
    __u32 buffer, const struct key *key, __u64 hash, __u64 thrown)
{
    for (int row = 0; row < ROWS; row++) {
        __u64 half = row ? hash >> 32 : hash & 0xffffffff;
        __u32 place = (buffer * ROWS + row) * columns + (__u32)(half * columns >> 32);
        struct flow *flow = bpf_map_lookup_elem(&buckets, &place);
        if (!flow)
            return;
        if (flow->count && flow->hash == hash) {
            flow->count++;
            continue;
        }
        __u32 count = flow->count, chance = row ? thrown >> 32 : thrown;
        if (count && (count >= DECAYS || chance >= decay[count]))
            continue;
        if (count > 1) {
            flow->count = count - 1;
            continue;
        }
        flow->hash = hash;
        flow->key = *key;
        flow->count = 1;
    }
}
