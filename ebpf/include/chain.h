/* Chain of XDP programs on one device. Each program passes packets to the next program of the
 * chain.
 *
 * The loader sets `next_program`; it depends on the order of the attached programs. For the last
 * program, `next_program` is empty, so the tail call fails. This costs no time, because the kernel
 * patches the jump. */
#ifndef CHAIN_H
#define CHAIN_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} next_program SEC(".maps");

/* Pass the packet to the next program. Use this instead of XDP_PASS: `return pass_on(packet);` */
static __always_inline int pass_on(struct xdp_md *packet)
{
    bpf_tail_call(packet, &next_program, 0);
    return XDP_PASS;
}

#endif
