// Offers a stream of packets to another XDP program. Each run writes the next row to the frame
// (Ethernet, IPv4, UDP or TCP), and then jumps to the other program by a tail call. So one call of
// BPF_PROG_TEST_RUN processes a whole stream, and the other program is the same as on devices.
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include "chain.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct row {
    __be32 source, destination;
    __be16 source_port, destination_port;
    __u16 length; // length of the frame in bytes
    __u8 protocol, flags; // TCP's
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1); // the loader sets the number of rows of the stream
    __type(key, __u32);
    __type(value, struct row);
} rows SEC(".maps");

const volatile __u32 count = 1; // rows
__u32 next; // next row; not atomic, because only one CPU at a time runs this program

SEC("xdp")
int offer(struct xdp_md *ctx)
{
    __u32 place = next < count ? next : 0;
    struct row *row = bpf_map_lookup_elem(&rows, &place);
    next = place + 1;
    if (!row)
        return XDP_ABORTED;
    int change = row->length - (int)(ctx->data_end - ctx->data);
    if (change && bpf_xdp_adjust_tail(ctx, change))
        return XDP_ABORTED;
    struct ethhdr *ethernet = (void *)(long)ctx->data;
    struct iphdr *ip = (void *)(ethernet + 1);
    struct tcphdr *tcp = (void *)(ip + 1); // ports are at the same offset in UDP and TCP
    if ((void *)tcp + 14 > (void *)(long)ctx->data_end)
        return XDP_ABORTED;
    ethernet->h_proto = bpf_htons(ETH_P_IP);
    *(__u8 *)ip = 0x45;
    ip->tot_len = bpf_htons(row->length - sizeof *ethernet);
    ip->frag_off = 0;
    ip->protocol = row->protocol;
    ip->saddr = row->source;
    ip->daddr = row->destination;
    tcp->source = row->source_port;
    tcp->dest = row->destination_port;
    if (row->protocol == 6) {
        ((__u8 *)tcp)[12] = 0x50;
        ((__u8 *)tcp)[13] = row->flags;
    } else {
        ((struct udphdr *)tcp)->len = bpf_htons(row->length - sizeof *ethernet - sizeof *ip);
    }
    bpf_tail_call(ctx, &next_program, 0);
    return XDP_ABORTED;
}

// Empty program. Its CPU time is that of the stream itself, which is the baseline for programs
// under test.
SEC("xdp")
int empty(struct xdp_md *ctx __attribute__((unused)))
{
    return XDP_PASS;
}
