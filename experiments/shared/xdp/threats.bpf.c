// Counts packets by label on departure, on arrival and after the filter.
//
// The sender writes the label of a packet into the IPv4 identification field. Other fields are not
// read.
#include <linux/if_ether.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>

#include "chain.h"

#define LABELS 4 // label 0 means that the packet is not from this experiment

__u64 packets[LABELS];

static __always_inline void count(struct xdp_md *context)
{
    const struct iphdr *ip = (void *)(long)context->data + ETH_HLEN;
    __u32 label = 0;

    if ((void *)(ip + 1) <= (void *)(long)context->data_end)
        label = bpf_ntohs(ip->id);
    // Without this line, the compiler compares a shifted value, and the verifier of Linux 6.1 does not
    // learn a bound of `label`.
    asm volatile("" : "+r"(label));
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
    return XDP_DROP; // no host replies
}

char _license[] SEC("license") = "Dual MIT/GPL";
