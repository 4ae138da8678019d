/* Measures the delay of packets. One program writes a timestamp into each packet. A second program
 * computes the time since this timestamp. */
#include "chain.h"

#include <linux/pkt_cls.h>

enum { STAMP_AT = 42 }; /* offset after the headers of Ethernet, IPv4 without options, and UDP */

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} took_ns SEC(".maps"); /* delays in order of arrival; when the map is full, no more are stored */

__u32 ended; /* number of received packets; not atomic, because all packets arrive on one CPU */

SEC("xdp")
int stamp(struct xdp_md *packet)
{
    __u64 *at = (void *)(long)packet->data + STAMP_AT;

    if ((void *)(at + 1) > (void *)(long)packet->data_end)
        return XDP_DROP;
    *at = bpf_ktime_get_ns();
    return pass_on(packet);
}

static __always_inline void end(const void *data, const void *data_end)
{
    const __u64 *at = data + STAMP_AT;
    __u64 now_ns = bpf_ktime_get_ns(), *took;
    __u32 number = ended;

    if ((const void *)(at + 1) > data_end)
        return;
    ended = number + 1;
    took = bpf_map_lookup_elem(&took_ns, &number);
    if (took)
        *took = now_ns - *at;
}

SEC("xdp")
int end_at_xdp(struct xdp_md *packet)
{
    end((void *)(long)packet->data, (void *)(long)packet->data_end);
    return pass_on(packet);
}

SEC("tc")
int end_at_tc(struct __sk_buff *packet)
{
    end((void *)(long)packet->data, (void *)(long)packet->data_end);
    return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual MIT/GPL";
