// Computes the selected streaming statistics of packets in one pass. It runs at XDP and at tc.
//
// After the program, the packet continues as without this program. Constants select the statistics,
// and define a flow (key.h). The verifier removes the code for statistics that are not selected.
#include "chain.h"
#include "flows.h"
#include "sets.h"
#include "values.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
    COUNTERS = 1, HEAVY_KEEPER = 2, QUANTILES = 4, SAMPLES = 8, DISTINCT = 16, MINIMA = 32,
    NORMS = 64,
};
const volatile __u32 selected = 0;

static __always_inline void observe(void *data, void *data_end, __u32 length)
{
    __u32 buffer = buffer_now();
    struct totals *own = bpf_map_lookup_elem(&totals, &buffer);
    struct packet packet;
    if (!own)
        return;
    if (!parse_head(data, data_end, length, &packet)) {
        own->ignored++;
        return;
    }
    add_totals(own, length);
    __u64 hash = 0, random = 0;
    struct key key;
    if (selected & (COUNTERS | HEAVY_KEEPER | DISTINCT | MINIMA | NORMS)) {
        key_of(&packet, &key);
        hash = hash_of(&key);
    }
    if (selected & (HEAVY_KEEPER | SAMPLES))
        random = next_random();
    if (selected & COUNTERS)
        count_flow(buffer, &key, hash, own);
    if (selected & HEAVY_KEEPER)
        keep_heavy(buffer, &key, hash, random);
    if (selected & QUANTILES)
        add_quantiles(buffer, length);
    if (selected & SAMPLES)
        take_sample(buffer, length, random);
    if (selected & DISTINCT)
        count_distinct(buffer, hash);
    if (selected & MINIMA)
        keep_least(buffer, hash);
    if (selected & NORMS)
        add_signs(buffer, hash);
}

SEC("xdp")
int at_xdp(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    observe(data, end, end - data);
    return pass_on(ctx);
}

SEC("tc")
int at_tc(struct __sk_buff *skb)
{
    pull_headers(skb);
    observe((void *)(long)skb->data, (void *)(long)skb->data_end, skb->len);
    return -1; // TC_ACT_UNSPEC: the packet continues as if this program did not exist
}
