/* A BPF program of a few lines at tcx ingress (Linux 6.6), which comes after packet sockets and before IP.
 *
 * There all that IP and UDP would do with a RoCE frame is to drop it, at a socket that takes nothing. */
#define _GNU_SOURCE
#include "bypass.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numbers.h"

enum {
    TCX_INGRESS_HOOK = 46, /* BPF_TCX_INGRESS, TCX_NEXT and TCX_DROP of newer headers */
    NEXT_PROGRAM = -1, DROP = 2,
    NEXT_UDP = 17, PORT = 4791,
    MOST_CHECKS = 8, INSTRUCTIONS_A_CHECK = 3
};

/* Of a frame `size` at `at`: the bits of `mask` have this value. */
struct check {
    uint8_t size;
    uint32_t at, mask, value;
};

static int bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static struct bpf_insn *write_return(int32_t verdict, struct bpf_insn *at)
{
    *at++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = verdict};
    *at++ = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    return at;
}

/* "Drop what passes all checks." A load past the end of a frame ends it with 0: the frame goes on. */
static uint32_t write_program(const struct check *checks, uint32_t count, struct bpf_insn *at)
{
    struct bpf_insn *begin = at;

    *at++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 6, .src_reg = 1};
    for (uint32_t i = 0; i < count; i++) {
        int16_t past_drop = (int16_t)((count - i - 1) * INSTRUCTIONS_A_CHECK + 2);

        *at++ = (struct bpf_insn){.code = (uint8_t)(BPF_LD | BPF_ABS | checks[i].size),
                                  .imm = (int32_t)checks[i].at};
        *at++ = (struct bpf_insn){.code = BPF_ALU | BPF_AND | BPF_K,
                                  .imm = (int32_t)checks[i].mask};
        *at++ = (struct bpf_insn){.code = BPF_JMP32 | BPF_JNE | BPF_K, .off = past_drop,
                                  .imm = (int32_t)checks[i].value};
    }
    at = write_return(DROP, at);
    return (uint32_t)(write_return(NEXT_PROGRAM, at) - begin);
}

static uint32_t check_ipv4(const struct roce_gid *own, struct check *checks)
{
    const struct check all[] = {
        {BPF_H, 12, 0xffff, ETH_P_IP}, {BPF_B, 14, 0xff, 0x45}, /* without options */
        {BPF_H, 20, 0x3fff, 0},                                 /* no fragment */
        {BPF_B, 23, 0xff, NEXT_UDP}, {BPF_W, 30, 0xffffffff, get32(own->bytes + 12)},
        {BPF_H, 36, 0xffff, PORT},
    };

    memcpy(checks, all, sizeof all);
    return sizeof all / sizeof *all;
}

static uint32_t check_ipv6(const struct roce_gid *own, struct check *checks)
{
    const struct check all[] = {
        {BPF_H, 12, 0xffff, ETH_P_IPV6}, {BPF_B, 20, 0xff, NEXT_UDP},
        {BPF_W, 38, 0xffffffff, get32(own->bytes)},
        {BPF_W, 42, 0xffffffff, get32(own->bytes + 4)},
        {BPF_W, 46, 0xffffffff, get32(own->bytes + 8)},
        {BPF_W, 50, 0xffffffff, get32(own->bytes + 12)}, {BPF_H, 56, 0xffff, PORT},
    };

    memcpy(checks, all, sizeof all);
    return sizeof all / sizeof *all;
}

static int load(const struct roce_gid *own)
{
    static const uint8_t mapped[12] = {[10] = 0xff, 0xff}; /* IPv4 addresses, as GIDs */
    struct bpf_insn program[1 + MOST_CHECKS * INSTRUCTIONS_A_CHECK + 4];
    struct check checks[MOST_CHECKS];
    union bpf_attr attributes = {0};
    uint32_t count = memcmp(own->bytes, mapped, sizeof mapped) ? check_ipv6(own, checks)
                                                               : check_ipv4(own, checks);

    attributes.prog_type = BPF_PROG_TYPE_SCHED_CLS;
    attributes.insns = (uintptr_t)program;
    attributes.insn_cnt = write_program(checks, count, program);
    attributes.license = (uintptr_t)"Apache-2.0";
    return bpf(BPF_PROG_LOAD, &attributes);
}

int roce_bypass_open(const char *interface, const struct roce_gid *own)
{
    union bpf_attr attributes = {0};
    int program = load(own), link, error;

    if (program < 0)
        return -1;
    attributes.link_create.prog_fd = (uint32_t)program;
    attributes.link_create.target_ifindex = if_nametoindex(interface);
    attributes.link_create.attach_type = TCX_INGRESS_HOOK;
    link = bpf(BPF_LINK_CREATE, &attributes);
    error = errno;
    close(program); /* the link keeps it */
    errno = error;
    return link;
}
