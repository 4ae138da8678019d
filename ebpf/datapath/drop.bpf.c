/* Programs that drop packets: all packets, or packets to some UDP ports. Other programs pass
 * packets to the kernel, which then drops the packets. */
#include "chain.h"

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>

/* packets to UDP ports in this range are dropped */
const volatile __u16 first_port = 9, last_port = 19;

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} dropped SEC(".maps");

static __always_inline void count(void)
{
    __u32 only = 0;
    __u64 *packets = bpf_map_lookup_elem(&dropped, &only);

    if (packets)
        (*packets)++;
}

/* Return whether to drop an IPv4 packet. VLAN tags and IPv4 options are not supported. So this
 * check takes as little work as the check of an iptables rule. */
static __always_inline int is_unwanted(void *data, void *data_end)
{
    const struct ethhdr *ethernet = data;
    const struct iphdr *ip = (void *)(ethernet + 1);
    const struct udphdr *udp = (void *)(ip + 1);
    __u16 port;

    if ((void *)(udp + 1) > data_end || ethernet->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 ||
        ip->protocol != IPPROTO_UDP || ip->frag_off & bpf_htons(0x1fff))
        return 0;
    port = bpf_ntohs(udp->dest);
    return first_port <= port && port <= last_port;
}

SEC("xdp")
int drop_all(struct xdp_md *packet)
{
    count();
    return XDP_DROP;
}

SEC("xdp")
int drop_ports(struct xdp_md *packet)
{
    if (!is_unwanted((void *)(long)packet->data, (void *)(long)packet->data_end))
        return pass_on(packet);
    count();
    return XDP_DROP;
}

SEC("xdp")
int pass_all(struct xdp_md *packet)
{
    return pass_on(packet);
}

SEC("tc")
int drop_ports_at_tc(struct __sk_buff *packet)
{
    if (!is_unwanted((void *)(long)packet->data, (void *)(long)packet->data_end))
        return TC_ACT_UNSPEC;
    count();
    return TC_ACT_SHOT;
}

char _license[] SEC("license") = "Apache-2.0";
