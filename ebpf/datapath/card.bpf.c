/* A model of a NIC that receives a flood at a given rate. The receive ring of the NIC has room for
 * a limited number of frames.
 *
 * Live frames arrive at the maximum rate. The model receives the frames that are due at the given
 * rate, and immediately drops all other frames. Due frames wait in the ring. If the ring is full,
 * the model loses frames, both of the flood and of other senders. */
#include "chain.h"

#include <linux/pkt_cls.h>

enum { PS_A_NS = 1000 };

const volatile __u32 ring = 4096; /* frames */
const volatile __u32 nowhere;     /* index of a device that discards all frames */

volatile __u64 interval_ps; /* time between frames of the flood */
volatile __u64 length_ns;   /* time after which no frame is due */
volatile __u64 began_ns;    /* start of the flood; 0 means that it starts with the next frame */
volatile __u64 due_ps;      /* time at which the first frame in the ring was due */
volatile __u64 arrived, lost, others_lost;
volatile __u32 has_ended;

SEC("xdp")
int arrives(struct xdp_md *packet)
{
    __u64 now_ns = bpf_ktime_get_ns(), since_ns, since_ps, waiting;

    if (!began_ns)
        began_ns = now_ns;
    since_ns = now_ns - began_ns;
    if (since_ns >= length_ns) {
        has_ended = 1;
        return XDP_DROP;
    }
    since_ps = since_ns * PS_A_NS;
    if (!interval_ps || since_ps < due_ps)
        return XDP_DROP;
    waiting = (since_ps - due_ps) / interval_ps;
    if (waiting > ring) {
        lost += waiting - ring;
        due_ps += (waiting - ring) * interval_ps;
    }
    due_ps += interval_ps;
    arrived++;
    return pass_on(packet);
}

/* Receives frames of senders other than the flood. The program hides drops from the sender, because
 * a sender that knows of a drop retransmits immediately. */
SEC("tc")
int is_sent(struct __sk_buff *packet)
{
    __u64 began = began_ns, since_ps = (bpf_ktime_get_ns() - began) * PS_A_NS;

    if (!began || has_ended || since_ps < due_ps + ring * interval_ps)
        return TC_ACT_UNSPEC;
    __sync_fetch_and_add(&others_lost, 1);
    return bpf_redirect(nowhere, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
