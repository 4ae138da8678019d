/* Writes the next frame of a table to each packet. BPF_PROG_TEST_RUN itself uses the same packet in
 * all runs.
 *
 * This program runs before the program under test. It writes only two kinds of bytes: bytes that
 * differ between frames, and bytes that the program under test may have changed. The kernel does
 * not restore changed bytes. */
#include "chain.h"


enum { MOST_WORDS = 16 };

const volatile __u32 count;      /* number of frames */
const volatile __u32 first_byte; /* index of the first byte that is written */
const volatile __u32 words;      /* number of 8-byte words that are written */

struct part {
    __u64 words[MOST_WORDS];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct part);
} parts SEC(".maps");

__u32 next; /* not atomic, because only one CPU runs this copy of the program */

SEC("xdp")
int table(struct xdp_md *packet)
{
    char *at = (char *)(long)packet->data + first_byte;
    const char *end = (const char *)(long)packet->data_end;
    __u32 number = next;
    const struct part *part = bpf_map_lookup_elem(&parts, &number);

    next = number + 1 < count ? number + 1 : 0;
    if (!part)
        return XDP_ABORTED;
#pragma unroll
    for (__u32 word = 0; word < MOST_WORDS; word++) {
        if (word >= words)
            break;
        if (at + (word + 1) * 8 > end)
            return XDP_ABORTED;
        *(__u64 *)(at + word * 8) = part->words[word];
    }
    return pass_on(packet);
}

char _license[] SEC("license") = "Dual MIT/GPL";
