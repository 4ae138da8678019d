/* A RoCE responder: frames in; memory written, and answers, out. It neither does I/O nor reads clocks.
 *
 * IBTA: InfiniBand Architecture Specification, volume 1; A16, A17 its annexes of RoCE and RoCEv2. */
#ifndef COLLECTORS_ROCE_NIC_H
#define COLLECTORS_ROCE_NIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "arrival.h"

enum {
    ROCE_DOMAINS = 256, /* registered regions, at most */
    ROCE_REPLAYS = 16,  /* atomic operations a queue pair of which the answer is kept (9.4.5) */
    ROCE_REFUSALS = 1024, /* the last ones, which are kept */
    ROCE_MANAGEMENT_ROOM = 2048, /* bytes of a frame to queue pair 1 */
    ROCE_MANAGEMENT_FRAMES = 64  /* that wait, at most: peers send them again */
};

/* Why a packet changed nothing, in the order in which it is asked. */
enum roce_reason {
    ROCE_ACCEPTED,
    ROCE_MANAGED, /* for queue pair 1: see roce_management() */
    /* frames */
    ROCE_FOREIGN,      /* no RoCE, or another's MAC address: not a word about it */
    ROCE_TRUNCATED,    /* shorter than its headers say */
    ROCE_IP_HEADER,    /* checksum, options, a fragment; GRH: version, next header */
    ROCE_UDP_CHECKSUM, /* neither 0 nor right */
    ROCE_ICRC,
    /* who speaks to whom (9.6.1) */
    ROCE_VERSION,    /* of the transport: not 0 */
    ROCE_OPCODE,     /* none of a request, or not of the queue pair's transport */
    ROCE_QUEUE_PAIR, /* there is none of this number */
    ROCE_BROKEN,     /* the queue pair had a fatal error: connect anew */
    ROCE_ADDRESS,    /* not that of the queue pair's peer, or not ours */
    ROCE_PARTITION,  /* P_Key */
    /* order */
    ROCE_GAP,         /* PSN ahead of the expected one: NAK */
    ROCE_GAP_AGAIN,   /* the same, and the NAK is out */
    ROCE_DUPLICATE,   /* PSN behind: answered again, not executed */
    ROCE_FORGOTTEN,   /* the same, of an atomic operation whose answer is no more there */
    ROCE_NOT_BEGUN,   /* middle or last of a message that has no first */
    ROCE_NOT_ENDED,   /* a new message before the last of one */
    ROCE_MESSAGE_CUT, /* UC: the rest of a message of which something is missing */
    /* what it asks for */
    ROCE_UNSUPPORTED, /* SEND, READ */
    ROCE_ACCESS,      /* queue pair without this right */
    ROCE_NO_RECEIVE,  /* immediate value, and as many completions wait as there may */
    ROCE_KEY,         /* R_Key */
    ROCE_KEY_ACCESS,  /* region without this right */
    ROCE_BOUNDS,      /* outside of the region */
    ROCE_LENGTH,      /* payload is not what RETH, path MTU or opcode say */
    ROCE_PADDING,     /* Pad Count does not fill up to four bytes */
    ROCE_ALIGNMENT,   /* of an atomic operation's address: 8 bytes */
    ROCE_REASONS
};

enum roce_access { ROCE_WRITE = 1, ROCE_ATOMIC = 2 };

struct roce_gid {
    uint8_t bytes[16];
};

/* A frame that was refused: `got` is what was wrong with it, and `expected` what would have been
 * right, if there is one such number. */
struct roce_refusal {
    uint64_t time_ns; /* when it came */
    uint64_t got, expected;
    uint32_t qpn, psn;
    uint8_t reason, opcode;
    uint8_t none[6];
};

struct roce_reply {
    uint16_t length; /* bytes of the frame; 0: no answer */
    uint8_t frame[94];
};

struct roce_completion {
    uint32_t qpn, immediate, length;
};

struct roce_counts {
    uint64_t accepted[32]; /* by opcode, without its transport */
    uint64_t refused[ROCE_REASONS];
};

struct roce_config {
    uint8_t mac[6];    /* zeros: frames to any */
    uint8_t none[2];
    uint32_t first_qpn;
    uint32_t queue_pairs; /* 2^n */
    uint32_t receives; /* completions of a queue pair that may wait */
    uint32_t path_mtu; /* bytes */
};

struct roce_connection {
    struct roce_gid own, peer;
    uint32_t peer_qpn, psn;
    uint32_t domain;
    uint8_t is_reliable, access;
    uint8_t none[2];
};

struct roce_nic;

struct roce_nic *roce_create(const struct roce_config *config);
void roce_destroy(struct roce_nic *nic);

/* Numbers of what was made; UINT32_MAX: no room. The memory must last as long as the nic. */
uint32_t roce_register(struct roce_nic *nic, uint8_t *memory, uint64_t length, uint64_t base,
                       uint32_t rkey, uint8_t access);
uint32_t roce_connect(struct roce_nic *nic, const struct roce_connection *connection);
bool roce_disconnect(struct roce_nic *nic, uint32_t qpn);

/* PSN that is expected next; UINT32_MAX: no such queue pair, or one that is broken. */
uint32_t roce_expected(struct roce_nic *nic, uint32_t qpn);

/* `count` frames, one after the other in `bytes`, and room for the answer to each. */
void roce_receive(struct roce_nic *nic, const struct arrival_record *arrivals, uint32_t count,
                  const uint8_t *bytes, struct roce_reply *replies);

/* Takes at most `room` completions; as many more may come then. */
uint32_t roce_completions(struct roce_nic *nic, struct roce_completion *completions, uint32_t room);
void roce_get_counts(struct roce_nic *nic, struct roce_counts *counts);

/* The last refusals, the oldest of them first; returns how many. */
uint32_t roce_refusals(struct roce_nic *nic, struct roce_refusal refusals[ROCE_REFUSALS]);

/* Takes a frame to queue pair 1; returns its length, or 0 where none waits. */
uint32_t roce_management(struct roce_nic *nic, uint8_t frame[ROCE_MANAGEMENT_ROOM]);

#endif
