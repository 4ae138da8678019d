// Filter that drops the first TCP SYN of a connection, because a sender with a forged address does
// not retransmit a SYN. If the SYN of a host is lost, the host retransmits it after a second (RFC
// 6298, 2.1), and then connects. So the filter drops and stores the first SYN of a connection. A
// SYN passes if it arrives at least `repeated_after_ns` after the last SYN of the same connection.
// SYNs of a sender that retransmits faster never pass.
#pragma once
#include <bpf/bpf_helpers.h>

#include "hash.h"
#include "packet.h"

#define OPENINGS (1 << 20) // slots, each with its latest SYN; 16 MB

enum { SYN = 2, ACK = 16 };
const volatile __u64 repeated_after_ns = 500000000;
volatile __u32 opening_seed; // random number from user space, so that senders cannot choose slots

struct opening {
    __u64 seen_ns; // time by the kernel's monotonic clock; 0 means a free slot
    __u32 mark;    // distinguishes connections in the same slot
    __u32 zero;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, OPENINGS);
    __type(key, __u32);
    __type(value, struct opening);
} openings SEC(".maps");

// Return whether a packet may be a SYN. A packet that is truncated before its flags (RFC 1858, 3)
// may be one, but hosts do not retransmit such packets.
static __always_inline bool opens(const struct packet *packet)
{
    return packet->protocol == IPPROTO_TCP &&
           (!packet->tcp_flags || (packet->tcp_flags & (SYN | ACK)) == SYN);
}

// Store a SYN, and return whether it may pass. `forgotten` counts the SYNs that others replaced.
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
