/* A short BPF program at tcx ingress (Linux 6.6). It runs after packet sockets and before IP.
 *
 * The program drops RoCE frames. Without the program, IP and UDP would process each frame, and then
 * drop it at a socket that receives nothing. */
#define _GNU_SOURCE
#include "bypass.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    TCX_INGRESS_HOOK = 46, /* names in newer headers: BPF_TCX_INGRESS, TCX_NEXT and TCX_DROP */
    NEXT_PROGRAM = -1, DROP = 2,
    PORT = 4791,
    MOST_CHECKS = 7, INSTRUCTIONS = 5 + 3 * MOST_CHECKS + 4,
    RESULT = 0, CONTEXT, FRAME, END /* registers */
};

/* A comparison: at offset `at` of a frame, 1, 2 or 4 bytes (masked) must have a value. Values are
 * in network byte order. */
struct check {
    uint8_t size;
    int16_t at;
    uint32_t mask, value;
};

static int bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static struct bpf_insn load(uint8_t size, uint8_t to, uint8_t from, size_t at)
{
    return (struct bpf_insn){.code = (uint8_t)(BPF_LDX | BPF_MEM | size), .dst_reg = to,
                             .src_reg = from, .off = (int16_t)at};
}

static struct bpf_insn *write_return(int32_t verdict, struct bpf_insn *at)
{
    *at++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = verdict};
    *at++ = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    return at;
}

/* Writes a program that drops a frame if the frame has at least `least` bytes and passes all
 * checks. If a check fails, the program passes the frame to the kernel. */
static uint32_t write_program(const struct check *checks, int count, int32_t least,
                              struct bpf_insn *at)
{
    struct bpf_insn *begin = at;

    *at++ = load(BPF_W, FRAME, CONTEXT, offsetof(struct __sk_buff, data));
    *at++ = load(BPF_W, END, CONTEXT, offsetof(struct __sk_buff, data_end));
    *at++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_X, .src_reg = FRAME};
    *at++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_ADD | BPF_K, .imm = least};
    *at++ = (struct bpf_insn){.code = BPF_JMP | BPF_JGT | BPF_X, .src_reg = END,
                              .off = (int16_t)(count * 3 + 2)};
    for (int left = count - 1; left >= 0; left--, checks++) {
        *at++ = load(checks->size, RESULT, FRAME, (size_t)checks->at);
        *at++ = (struct bpf_insn){.code = BPF_ALU | BPF_AND | BPF_K, .imm = (int32_t)checks->mask};
        *at++ = (struct bpf_insn){.code = BPF_JMP32 | BPF_JNE | BPF_K,
                                  .imm = (int32_t)checks->value, .off = (int16_t)(left * 3 + 2)};
    }
    at = write_return(DROP, at);
    return (uint32_t)(write_return(NEXT_PROGRAM, at) - begin);
}

static uint32_t word(const struct roce_gid *own, int at)
{
    uint32_t found;

    memcpy(&found, own->bytes + at, sizeof found);
    return found;
}

static uint32_t write_ipv4(const struct roce_gid *own, struct bpf_insn *program)
{
    const struct check checks[] = {
        {BPF_H, 12, 0xffff, htons(ETH_P_IP)},
        {BPF_B, 14, 0xff, 0x45},      /* IPv4 header without options */
        {BPF_H, 20, htons(0x3fff), 0}, /* not a fragment */
        {BPF_B, 23, 0xff, IPPROTO_UDP},
        {BPF_W, 30, 0xffffffff, word(own, 12)},
        {BPF_H, 36, 0xffff, htons(PORT)},
    };

    return write_program(checks, sizeof checks / sizeof *checks, 14 + 20 + 8, program);
}

static uint32_t write_ipv6(const struct roce_gid *own, struct bpf_insn *program)
{
    const struct check checks[] = {
        {BPF_H, 12, 0xffff, htons(ETH_P_IPV6)},
        {BPF_B, 20, 0xff, IPPROTO_UDP},
        {BPF_W, 38, 0xffffffff, word(own, 0)},
        {BPF_W, 42, 0xffffffff, word(own, 4)},
        {BPF_W, 46, 0xffffffff, word(own, 8)},
        {BPF_W, 50, 0xffffffff, word(own, 12)},
        {BPF_H, 56, 0xffff, htons(PORT)},
    };

    return write_program(checks, sizeof checks / sizeof *checks, 14 + 40 + 8, program);
}

static int load_program(const struct roce_gid *own)
{
    static const uint8_t mapped[12] = {[10] = 0xff, 0xff}; /* an IPv4 address is mapped to a GID */
    struct bpf_insn program[INSTRUCTIONS];
    union bpf_attr attributes = {0};

    attributes.prog_type = BPF_PROG_TYPE_SCHED_CLS;
    attributes.insns = (uintptr_t)program;
    attributes.insn_cnt = memcmp(own->bytes, mapped, sizeof mapped) ? write_ipv6(own, program)
                                                                    : write_ipv4(own, program);
    attributes.license = (uintptr_t)"Apache-2.0";
    return bpf(BPF_PROG_LOAD, &attributes);
}

int roce_bypass_open(const char *interface, const struct roce_gid *own)
{
    union bpf_attr attributes = {0};
    int program = load_program(own), link, error;

    if (program < 0)
        return -1;
    attributes.link_create.prog_fd = (uint32_t)program;
    attributes.link_create.target_ifindex = if_nametoindex(interface);
    attributes.link_create.attach_type = TCX_INGRESS_HOOK;
    link = bpf(BPF_LINK_CREATE, &attributes);
    error = errno;
    close(program); /* the link keeps a reference to the program */
    errno = error;
    return link;
}
