// Filter that drops the first TCP SYN of a connection. A sender with a forged address does not
// retransmit a SYN. If the SYN of a host is lost, the host retransmits it after a second (RFC 6298,
// 2.1), and then connects. So the filter drops and stores the first SYN of a connection. A later
// SYN passes if it arrives at least `repeated_after_ns` after the last SYN of the same connection.
// If a sender retransmits at shorter intervals, its SYNs never pass.
#pragma once
#include <bpf/bpf_helpers.h>

#include "hash.h"
#include "packet.h"

#define OPENINGS (1 << 20) // number of slots; each stores its latest SYN; 16 MB

enum { SYN = 2, ACK = 16 };
const volatile __u64 repeated_after_ns = 500000000;
// random number from user space; senders do not know it, so they cannot choose slots
volatile __u32 opening_seed;

struct opening {
    __u64 seen_ns; // time on the kernel's monotonic clock; 0 means that the slot is free
    __u32 mark;    // distinguishes connections that have the same slot
    __u32 zero;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, OPENINGS);
    __type(key, __u32);
    __type(value, struct opening);
} openings SEC(".maps");

// Return whether a packet may be a SYN. This includes packets that end before the TCP flags (RFC
// 1858, 3). No host retransmits such a packet.
static __always_inline bool opens(const struct packet *packet)
{
    return packet->protocol == IPPROTO_TCP &&
           (!packet->tcp_flags || (packet->tcp_flags & (SYN | ACK)) == SYN);
}

// Store a SYN. Return whether it may pass. `forgotten` counts the SYNs that other SYNs replaced.
static __always_inline bool is_repeated(const struct packet *packet, __u64 *forgotten)
{
    __u32 words[10] = {opening_seed};
    __u64 now_ns = bpf_ktime_get_ns(), before_ns;
    struct opening *opening;
    __u32 place, mark;

    if (!packet->tcp_flags)
        return false;
    __builtin_memcpy(words + 1, packet->source, 16);
    __builtin_memcpy(words + 5, packet->destination, 16);
    words[9] = packet->source_port | (__u32)packet->destination_port << 16;
    place = murmur3(words, 10) & (OPENINGS - 1);
    words[0] = ~words[0];
    mark = murmur3(words, 10);
    opening = bpf_map_lookup_elem(&openings, &place);
    if (!opening)
        return false;
    before_ns = opening->seen_ns;
    if (opening->mark != mark) {
        if (before_ns && now_ns - before_ns < 2 * repeated_after_ns)
            ++*forgotten;
        before_ns = 0;
    }
    opening->mark = mark;
    opening->seen_ns = now_ns;
    return before_ns && now_ns - before_ns >= repeated_after_ns;
}
