/* A RoCE responder: processes frames, writes to memory, and creates responses. It does no I/O and
 * reads no clock.
 *
 * IBTA is the InfiniBand Architecture Specification, volume 1. A16 and A17 are its annexes on RoCE
 * and RoCEv2. */
#ifndef COLLECTORS_ROCE_NIC_H
#define COLLECTORS_ROCE_NIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "arrival.h"

enum {
    ROCE_DOMAINS = 256, /* maximum number of registered regions */
    /* number of responses to atomic operations that are stored per queue pair (9.4.5) */
    ROCE_REPLAYS = 16,
    ROCE_REFUSALS = 1024, /* number of rejected frames that are stored; these are the latest */
    ROCE_MANAGEMENT_ROOM = 2048, /* maximum length in bytes of a frame for queue pair 1 */
    /* maximum number of management frames that wait; peers resend dropped frames */
    ROCE_MANAGEMENT_FRAMES = 64
};

/* Result of the checks of a packet. Results are in the order in which they are checked. */
enum roce_reason {
    ROCE_ACCEPTED,
    ROCE_MANAGED, /* frame for queue pair 1; see roce_management() */
    /* frames */
    ROCE_FOREIGN,      /* not RoCE, or for another MAC address; ignored */
    ROCE_TRUNCATED,    /* shorter than its headers require */
    /* wrong checksum, options, or fragment; in a GRH: wrong version or next header */
    ROCE_IP_HEADER,
    ROCE_UDP_CHECKSUM, /* checksum is neither 0 nor correct */
    ROCE_ICRC,
    /* addressing (9.6.1) */
    ROCE_VERSION,    /* transport version is not 0 */
    ROCE_OPCODE,     /* opcode is no request in the transport of the queue pair */
    ROCE_QUEUE_PAIR, /* queue pair does not exist */
    ROCE_BROKEN,     /* the queue pair had a fatal error and must be connected again */
    ROCE_ADDRESS,    /* addresses differ from those of the queue pair and its peer */
    ROCE_PARTITION,  /* P_Key */
    /* order */
    ROCE_GAP,         /* PSN is ahead of the expected PSN; the responder sends a NAK */
    ROCE_GAP_AGAIN,   /* PSN is ahead of the expected PSN; the responder has already sent a NAK */
    ROCE_DUPLICATE,   /* PSN is behind the expected PSN; only the response is sent again */
    /* PSN of an atomic operation is behind, and its response is no longer stored */
    ROCE_FORGOTTEN,
    ROCE_NOT_BEGUN,   /* middle or last packet of a message that has no first packet */
    ROCE_NOT_ENDED,   /* first packet of a message, but the previous message has no last packet */
    ROCE_MESSAGE_CUT, /* UC: an earlier packet of the same message is missing */
    /* request */
    ROCE_UNSUPPORTED, /* operation that is not supported: SEND, READ */
    ROCE_ACCESS,      /* the queue pair lacks this right */
    ROCE_NO_RECEIVE,  /* packet has an immediate value, but too many completions are waiting */
    ROCE_KEY,         /* R_Key */
    ROCE_KEY_ACCESS,  /* the region lacks this right */
    ROCE_BOUNDS,      /* address is outside the region */
    ROCE_LENGTH,      /* length of the payload does not match RETH, path MTU or opcode */
    ROCE_PADDING,     /* Pad Count does not fill the last four bytes */
    ROCE_ALIGNMENT,   /* address of an atomic operation is not a multiple of 8 */
    ROCE_REASONS
};

enum roce_access { ROCE_WRITE = 1, ROCE_ATOMIC = 2 };

struct roce_gid {
    uint8_t bytes[16];
};

/* A rejected frame. `got` is the wrong value. `expected` is the right value, if there is only
 * one. */
struct roce_refusal {
    uint64_t time_ns; /* arrival time */
    uint64_t got, expected;
    uint32_t qpn, psn;
    uint8_t reason, opcode;
    uint8_t none[6];
};

struct roce_reply {
    uint16_t length; /* length of the response frame in bytes; 0 means that there is no response */
    uint8_t frame[94];
};

struct roce_completion {
    uint32_t qpn, immediate, length;
};

struct roce_counts {
    uint64_t accepted[32]; /* the array index is the opcode without the bits of the transport */
    uint64_t refused[ROCE_REASONS];
};

struct roce_config {
    uint8_t mac[6];    /* MAC address; if it is all zeros, frames to any address are accepted */
    uint8_t none[2];
    uint32_t first_qpn;
    uint32_t queue_pairs; /* a power of two */
    uint32_t receives; /* maximum number of completions that wait, per queue pair */
    uint32_t path_mtu; /* in bytes */
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

/* These functions return an index, or UINT32_MAX if there is no room. The memory must exist longer
 * than the NIC. */
uint32_t roce_register(struct roce_nic *nic, uint8_t *memory, uint64_t length, uint64_t base,
                       uint32_t rkey, uint8_t access);
uint32_t roce_connect(struct roce_nic *nic, const struct roce_connection *connection);
bool roce_disconnect(struct roce_nic *nic, uint32_t qpn);

/* Returns the PSN that is expected next, or UINT32_MAX if the queue pair does not exist or is
 * broken. */
uint32_t roce_expected(struct roce_nic *nic, uint32_t qpn);

/* Processes `count` frames, which follow each other in `bytes`. There must be room for one response
 * per frame. */
void roce_receive(struct roce_nic *nic, const struct arrival_record *arrivals, uint32_t count,
                  const uint8_t *bytes, struct roce_reply *replies);

/* Returns and removes at most `room` completions. If the result is `room`, more completions may be
 * waiting. */
uint32_t roce_completions(struct roce_nic *nic, struct roce_completion *completions, uint32_t room);
void roce_get_counts(struct roce_nic *nic, struct roce_counts *counts);

/* Copies the latest rejected frames; the oldest is first. Returns their number. */
uint32_t roce_refusals(struct roce_nic *nic, struct roce_refusal refusals[ROCE_REFUSALS]);

/* Returns and removes a frame for queue pair 1. The result is the length of the frame, or 0 if no
 * frame waits. */
uint32_t roce_management(struct roce_nic *nic, uint8_t frame[ROCE_MANAGEMENT_ROOM]);

#endif
