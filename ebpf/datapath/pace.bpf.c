/* Packets at a pace: live frames come as fast as they can, and those that are due are handed on.
 *
 * Others are dropped at once. The time between two frames belongs to the first of them, and is used if
 * that was handed on; so is the end of a batch in which one was, when the kernel's stack gets them. */
#include "chain.h"

enum { PS_A_NS = 1000, GAP_NS = 200000 }; /* longer than a batch takes: the core was another's */

const volatile __u32 batch = 64;

__u64 interval_ps; /* between packets; 0: all are due */
__u64 length_ns;   /* after which none is */
__u64 began_ns, passed_ns, due_ps;
__u64 lost_ns, used_ns; /* of the time that passed */
__u64 frames, offered;  /* within that time */
__u64 last_offered;     /* as many frames had come; 0: none was */

static __always_inline int is_used(void)
{
    __u64 batch_began = (frames - 1) / batch * batch;

    return last_offered && (last_offered == frames ||
                            (frames % batch == 0 && last_offered > batch_began));
}

SEC("xdp")
int pace(struct xdp_md *packet)
{
    __u64 now_ns = bpf_ktime_get_ns(), since_ns, took_ns;

    if (!began_ns)
        began_ns = now_ns;
    since_ns = now_ns - began_ns;
    if (since_ns >= length_ns)
        return XDP_DROP;
    took_ns = since_ns - passed_ns;
    if (took_ns > GAP_NS)
        lost_ns += took_ns;
    else if (is_used())
        used_ns += took_ns;
    passed_ns = since_ns;
    frames++;
    if (since_ns * PS_A_NS < due_ps)
        return XDP_DROP;
    due_ps += interval_ps;
    offered++;
    last_offered = frames;
    return pass_on(packet);
}

char _license[] SEC("license") = "Dual MIT/GPL";
