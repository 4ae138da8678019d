/* Passes packets to the network stack at a given rate. Live frames arrive at the maximum rate, and
 * the program passes the frames that are due.
 *
 * The program drops all other frames immediately. The time between two frames is attributed to the
 * first frame. If the first frame was passed, this time is used time. At the end of a batch, the
 * kernel's stack processes the passed frames. So if a frame of the batch was passed, the time at
 * the end of the batch is used time, too. */
#include "chain.h"

/* A batch takes less than GAP_NS. So if the time between two frames exceeds GAP_NS, another process
 * used the core. */
enum { PS_A_NS = 1000, GAP_NS = 200000 };

const volatile __u32 batch = 64;

__u64 interval_ps; /* time between packets; 0 means that all packets are due */
__u64 length_ns;   /* time after which no packet is due */
__u64 began_ns, passed_ns, due_ps;
/* lost_ns: time in which other processes ran; used_ns: time for passed frames */
__u64 lost_ns, used_ns;
__u64 frames, offered; /* frames that were received, and frames that were passed */
/* value of `frames` at the last passed frame; 0 means that no frame was passed */
__u64 last_offered;

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
