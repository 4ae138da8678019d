/* Passes all packets of a queue to the AF_XDP socket of this queue. */
#include "chain.h"

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, 64);
    __type(key, __u32);
    __type(value, __u32);
} sockets SEC(".maps"); /* map from queue number to socket */

SEC("xdp")
int to_socket(struct xdp_md *packet)
{
    return bpf_redirect_map(&sockets, packet->rx_queue_index, XDP_DROP);
}

char _license[] SEC("license") = "Apache-2.0";
