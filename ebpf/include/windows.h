// Two buffers per CPU for all data. Packets fill one buffer, while user space reads and clears the
// other buffer. To swap the buffers, user space changes `active`, and then updates `grace`, which
// is a map of maps. The update returns when no running program uses the old value of `active` any
// more. So each packet is counted in exactly one window, and no program writes to a buffer that
// user space reads.
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "key.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} active SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, 1);
    __type(key, __u32);
    __array(values, struct { // type of the inner maps; user space stores a map like `active`
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, __u32);
    });
} grace SEC(".maps");

// Define a map with two buffers per CPU. The loader sets the number of entries per buffer.
#define BUFFERS(name, type_)                        \
    struct {                                        \
        __uint(type, BPF_MAP_TYPE_ARRAY);           \
        __uint(map_flags, BPF_F_MMAPABLE);          \
        __uint(max_entries, 2);                     \
        __type(key, __u32);                         \
        __type(value, type_);                       \
    } name SEC(".maps")

// State of the pseudo-random generator, per CPU. The reader sets the state, so that a run can be
// reproduced.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} rng_states SEC(".maps");

// Return the next number of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
static __always_inline __u64 next_random(void)
{
    __u32 processor = bpf_get_smp_processor_id();
    __u64 *state = bpf_map_lookup_elem(&rng_states, &processor);
    return state ? mixed(*state += 0x9e3779b97f4a7c15ULL) : 0;
}

// Return the index of the buffer that this CPU fills.
static __always_inline __u32 buffer_now(void)
{
    __u32 zero = 0, *now = bpf_map_lookup_elem(&active, &zero);
    return bpf_get_smp_processor_id() * 2 + (now ? *(volatile __u32 *)now & 1 : 0);
}
