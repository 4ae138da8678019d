// Router. Forwards IPv4 and IPv6 packets with the tables of the kernel. If a packet needs a
// response, or more than a lookup, the program passes it to the kernel, which implements RFC 1812
// and RFC 8200.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "chain.h"

#define MAX_DEVICES 4096
#define INET 2   // AF_INET
#define INET6 10 // AF_INET6
#define HOP_BY_HOP 0

struct device {
    __u8 mac[ETH_ALEN];
    __u8 is_port; // whether the device is a port of the router
};

struct { // by ifindex
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_DEVICES);
    __type(key, __u32);
    __type(value, struct device);
} devices SEC(".maps");

// Packet counts for each outcome. The program itself forwards or drops packets with the first two
// outcomes. It passes all other packets to the kernel.
struct counts {
    __u64 forwarded;
    __u64 blackholed;
    // sent to another MAC address or to a group address, or received at a device that is no port
    __u64 not_addressed;
    // frames with VLAN tags are included, because the kernel knows its VLAN devices
    __u64 not_ip;
    __u64 malformed;
    __u64 options; // IPv4 options, or IPv6 hop-by-hop options
    __u64 special; // addresses that a router must not forward
    __u64 expired;
    __u64 too_big;
    __u64 no_neighbour; // the MAC address of the next hop is unknown
    __u64 no_route;     // packets to the router itself are included
    __u64 no_port;      // the route uses a device that is no port of the router
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct counts);
} counts SEC(".maps");

static __always_inline int leave(__u64 *count, int verdict)
{
    ++*count;
    return verdict;
}

static __always_inline __u16 folded(__u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

// Return whether the checksum of a 20-byte header is right: the sum over the header must be all
// ones (RFC 791, 3.1).
static __always_inline _Bool is_intact(const struct iphdr *ip)
{
    const __u32 *words = (const __u32 *)ip;

    return folded((__u64)words[0] + words[1] + words[2] + words[3] + words[4]) == 0xffff;
}

// RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). Here, m is the 16 bits that change.
static __always_inline void decrease_ttl(struct iphdr *ip)
{
    __u16 before = bpf_htons(ip->ttl << 8 | ip->protocol);
    __u16 after = bpf_htons((ip->ttl - 1) << 8 | ip->protocol);

    ip->ttl--;
    ip->check = ~folded((__u64)(__u16)~ip->check + (__u16)~before + after);
}

// Return whether an address must not be a source or destination (RFC 1812, 5.3.7). Such addresses
// are: "this" network, loopback, multicast and class E.
static __always_inline _Bool is_special_ip(__be32 address)
{
    __u8 first = bpf_ntohl(address) >> 24;

    return first == 0 || first == 127 || first >= 224;
}

// Return whether packets with this address must not be forwarded (RFC 4291, 2.5). Such addresses
// are: unspecified, loopback (and all others in ::/32), link-local and multicast.
static __always_inline _Bool is_special_ip6(const struct in6_addr *address)
{
    __u32 first = bpf_ntohl(address->in6_u.u6_addr32[0]);

    return first == 0 || first >> 22 == 0xfe80 >> 6 || first >> 24 == 0xff;
}

// Return NULL if an IPv4 packet can be looked up. Otherwise, return the counter of the reason why
// it cannot. The code compares lengths and not pointers, because the verifier of Linux 6.1 has no
// bounds for the result of bpf_ntohs.
static __always_inline __u64 *ip_refused(struct counts *count, const struct iphdr *ip, void *end)
{
    if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5)
        return &count->malformed;
    if (ip->ihl > 5)
        return &count->options;
    if (bpf_ntohs(ip->tot_len) < sizeof(*ip) || bpf_ntohs(ip->tot_len) > end - (void *)ip)
        return &count->malformed;
    if (!is_intact(ip))
        return &count->malformed;
    if (is_special_ip(ip->saddr) || is_special_ip(ip->daddr))
        return &count->special;
    return ip->ttl <= 1 ? &count->expired : 0;
}

static __always_inline __u64 *ip6_refused(struct counts *count, const struct ipv6hdr *ip, void *end)
{
    if ((void *)(ip + 1) > end || ip->version != 6)
        return &count->malformed;
    if (bpf_ntohs(ip->payload_len) > end - (void *)(ip + 1))
        return &count->malformed;
    if (ip->nexthdr == HOP_BY_HOP)
        return &count->options;
    if (is_special_ip6(&ip->saddr) || is_special_ip6(&ip->daddr))
        return &count->special;
    return ip->hop_limit <= 1 ? &count->expired : 0;
}

// Look up the packet in the tables of the kernel, and write the result to the frame. Returns the
// XDP verdict.
static __always_inline int looked_up(struct xdp_md *context, struct counts *count,
                                     struct bpf_fib_lookup *fib, struct ethhdr *ethernet)
{
    struct device *device;
    __u32 out;

    fib->ifindex = context->ingress_ifindex;
    switch (bpf_fib_lookup(context, fib, sizeof(*fib), 0)) {
    case BPF_FIB_LKUP_RET_SUCCESS:
        break;
    case BPF_FIB_LKUP_RET_BLACKHOLE:
        return leave(&count->blackholed, XDP_DROP);
    case BPF_FIB_LKUP_RET_FRAG_NEEDED:
        return leave(&count->too_big, XDP_PASS);
    case BPF_FIB_LKUP_RET_NO_NEIGH:
        return leave(&count->no_neighbour, XDP_PASS);
    default:
        return leave(&count->no_route, XDP_PASS);
    }
    out = fib->ifindex;
    device = bpf_map_lookup_elem(&devices, &out);
    if (!device || !device->is_port)
        return leave(&count->no_port, XDP_PASS);
    __builtin_memcpy(ethernet->h_dest, fib->dmac, ETH_ALEN);
    __builtin_memcpy(ethernet->h_source, fib->smac, ETH_ALEN);
    return XDP_REDIRECT;
}

static __always_inline int route_ip(struct xdp_md *context, struct counts *count,
                                    struct ethhdr *ethernet, void *end)
{
    struct iphdr *ip = (void *)(ethernet + 1);
    struct bpf_fib_lookup fib = {.family = INET};
    __u64 *refused = ip_refused(count, ip, end);
    int verdict;

    if (refused || (void *)(ip + 1) > end) // the second condition is needed only by the verifier
        return leave(refused ?: &count->malformed, XDP_PASS);
    fib.tos = ip->tos;
    fib.l4_protocol = ip->protocol;
    fib.tot_len = bpf_ntohs(ip->tot_len);
    fib.ipv4_src = ip->saddr;
    fib.ipv4_dst = ip->daddr;
    verdict = looked_up(context, count, &fib, ethernet);
    if (verdict != XDP_REDIRECT)
        return verdict;
    decrease_ttl(ip);
    return leave(&count->forwarded, bpf_redirect(fib.ifindex, 0));
}

static __always_inline int route_ip6(struct xdp_md *context, struct counts *count,
                                     struct ethhdr *ethernet, void *end)
{
    struct ipv6hdr *ip = (void *)(ethernet + 1);
    struct bpf_fib_lookup fib = {.family = INET6};
    __u64 *refused = ip6_refused(count, ip, end);
    int verdict;

    if (refused || (void *)(ip + 1) > end)
        return leave(refused ?: &count->malformed, XDP_PASS);
    fib.flowinfo = *(__be32 *)ip & bpf_htonl(0x0fffffff);
    fib.l4_protocol = ip->nexthdr;
    fib.tot_len = sizeof(*ip) + bpf_ntohs(ip->payload_len);
    __builtin_memcpy(fib.ipv6_src, &ip->saddr, sizeof(fib.ipv6_src));
    __builtin_memcpy(fib.ipv6_dst, &ip->daddr, sizeof(fib.ipv6_dst));
    verdict = looked_up(context, count, &fib, ethernet);
    if (verdict != XDP_REDIRECT)
        return verdict;
    ip->hop_limit--;
    return leave(&count->forwarded, bpf_redirect(fib.ifindex, 0));
}

static __always_inline _Bool is_addressed(const struct ethhdr *ethernet, __u32 ifindex)
{
    struct device *device = bpf_map_lookup_elem(&devices, &ifindex);

    return device && device->is_port &&
           *(__u32 *)ethernet->h_dest == *(__u32 *)device->mac &&
           *(__u16 *)(ethernet->h_dest + 4) == *(__u16 *)(device->mac + 4);
}

static __always_inline int routed(struct xdp_md *context)
{
    struct ethhdr *ethernet = (void *)(long)context->data;
    void *end = (void *)(long)context->data_end;
    __u32 first = 0;
    struct counts *count = bpf_map_lookup_elem(&counts, &first);

    if (!count)
        return XDP_ABORTED; // impossible, because an array always has its first entry
    if ((void *)(ethernet + 1) > end)
        return leave(&count->malformed, XDP_PASS);
    if (!is_addressed(ethernet, context->ingress_ifindex))
        return leave(&count->not_addressed, XDP_PASS);
    if (ethernet->h_proto == bpf_htons(ETH_P_IP))
        return route_ip(context, count, ethernet, end);
    if (ethernet->h_proto == bpf_htons(ETH_P_IPV6))
        return route_ip6(context, count, ethernet, end);
    return leave(&count->not_ip, XDP_PASS);
}

SEC("xdp")
int router(struct xdp_md *context)
{
    int verdict = routed(context);

    return verdict == XDP_PASS ? pass_on(context) : verdict;
}

char _license[] SEC("license") = "Dual MIT/GPL";
