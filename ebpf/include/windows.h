// Two buffers of everything, a set for each processor: packets fill one while user space reads
// and clears the other.
//
// To flip, user space changes `active` and then updates `grace`, a map of maps: that call returns
// when no program is running any more that may have read the old number. So each packet is in one
// window, whole, and nothing is written to a buffer that is being read.
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
    __array(values, struct { // of the kind of `active`, which user space puts here
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, __u32);
    });
} grace SEC(".maps");

// A map of which each processor has two buffers of `count` entries (set by the reader).
#define BUFFERS(name, type_)                        \
    struct {                                        \
        __uint(type, BPF_MAP_TYPE_ARRAY);           \
        __uint(map_flags, BPF_F_MMAPABLE);          \
        __uint(max_entries, 2);                     \
        __type(key, __u32);                         \
        __type(value, type_);                       \
    } name SEC(".maps")

// Pseudo-random numbers, a state for each processor (set by the reader): a run can be repeated.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} rng_states SEC(".maps");

// The next one: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
static __always_inline __u64 next_random(void)
{
    __u32 processor = bpf_get_smp_processor_id();
    __u64 *state = bpf_map_lookup_elem(&rng_states, &processor);
    return state ? mixed(*state += 0x9e3779b97f4a7c15ULL) : 0;
}

// The number of this processor's buffer that is being filled.
static __always_inline __u32 buffer_now(void)
{
    __u32 zero = 0, *now = bpf_map_lookup_elem(&active, &zero);
    return bpf_get_smp_processor_id() * 2 + (now ? *(volatile __u32 *)now & 1 : 0);
}
