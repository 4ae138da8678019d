/* Programs that forward packets. One program sends each packet back through the device at which it
 * arrived. Other programs send each packet through another device. */
#include "chain.h"

#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

const volatile __u32 out; /* index of the output device, for tc */

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} devices SEC(".maps"); /* the output device, for XDP */

/* Exchange the two MAC addresses. Returns false if the frame is too short. */
static __always_inline int exchange_addresses(void *data, void *data_end)
{
    struct ethhdr *ethernet = data;
    __u8 address[ETH_ALEN];

    if ((void *)(ethernet + 1) > data_end)
        return 0;
    __builtin_memcpy(address, ethernet->h_dest, ETH_ALEN);
    __builtin_memcpy(ethernet->h_dest, ethernet->h_source, ETH_ALEN);
    __builtin_memcpy(ethernet->h_source, address, ETH_ALEN);
    return 1;
}

SEC("xdp")
int send_back(struct xdp_md *packet)
{
    if (!exchange_addresses((void *)(long)packet->data, (void *)(long)packet->data_end))
        return XDP_DROP;
    return XDP_TX;
}

SEC("xdp")
int send_on(struct xdp_md *packet)
{
    if (!exchange_addresses((void *)(long)packet->data, (void *)(long)packet->data_end))
        return XDP_DROP;
    return bpf_redirect_map(&devices, 0, XDP_DROP);
}

SEC("tc")
int send_on_at_tc(struct __sk_buff *packet)
{
    if (!exchange_addresses((void *)(long)packet->data, (void *)(long)packet->data_end))
        return TC_ACT_SHOT;
    return bpf_redirect(out, 0);
}

char _license[] SEC("license") = "Apache-2.0";
