// Counts packets by what they are: where they leave, where they arrive, and behind a filter.
//
// The sender writes a packet's label into the IPv4 identification; headers are not inspected.
#include <linux/if_ether.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>

#include "chain.h"

#define LABELS 4 // 0: not from this experiment

__u64 packets[LABELS];

static __always_inline void count(struct xdp_md *context)
{
    const struct iphdr *ip = (void *)(long)context->data + ETH_HLEN;
    __u32 label = 0;

    if ((void *)(ip + 1) <= (void *)(long)context->data_end)
        label = bpf_ntohs(ip->id);
    asm volatile("" : "+r"(label)); // else it is compared shifted, of which Linux 6.1 learns nothing
    if (label >= LABELS)
        label = 0;
    __sync_fetch_and_add(&packets[label], 1);
}

SEC("xdp")
int leave(struct xdp_md *context)
{
    count(context);
    return XDP_TX;
}

SEC("xdp")
int arrive(struct xdp_md *context)
{
    count(context);
    return pass_on(context);
}

SEC("xdp")
int behind(struct xdp_md *context)
{
    count(context);
    return XDP_DROP; // no host answers
}

char _license[] SEC("license") = "Dual MIT/GPL";
