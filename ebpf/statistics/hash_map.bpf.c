// Counts each flow in a hash map of the kernel. This is the baseline for the CPU time of the
// statistics.
//
// Each entry of the map has a key, and one counter per CPU. If the map is full, new flows are not
// counted.
#include "chain.h"
#include "key.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 1); // the loader sets it
    __type(key, struct key);
    __type(value, __u64);
} flows SEC(".maps");

SEC("xdp")
int by_hash_map(struct xdp_md *ctx)
{
    struct packet packet;
    struct key key;
    __u64 one = 1;
    if (parse((void *)(long)ctx->data, (void *)(long)ctx->data_end, &packet)) {
        key_of(&packet, &key);
        __u64 *count = bpf_map_lookup_elem(&flows, &key);
        if (count)
            ++*count;
        else
            bpf_map_update_elem(&flows, &key, &one, BPF_NOEXIST);
    }
    return pass_on(ctx);
}
