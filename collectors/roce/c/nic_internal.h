/* Memory layout of the responder, and interfaces between its parts: packets, rules and
 * responses. */
#ifndef COLLECTORS_ROCE_NIC_INTERNAL_H
#define COLLECTORS_ROCE_NIC_INTERNAL_H

#include "nic.h"

enum {
    /* header sizes in bytes */
    ETHERNET = 14, GRH = 40, IPV4 = 20, IPV6 = 40, UDP = 8, BTH = 12, ICRC = 4,
    PSN_MASK = 0xffffff,
    GSI = 1 /* queue pair of connection management */
};

/* Opcodes without the bits of the transport (IBTA, 9.2.1). */
enum {
    SEND_FIRST = 0x00, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMMEDIATE, SEND_ONLY, SEND_ONLY_IMMEDIATE,
    WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMMEDIATE, WRITE_ONLY, WRITE_ONLY_IMMEDIATE,
    READ_REQUEST,
    ACKNOWLEDGE = 0x11, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD,
    SEND_LAST_INVALIDATE = 0x16, SEND_ONLY_INVALIDATE,
    OPERATIONS = 0x20,
    RC = 0x00, UC = 0x20, UD = 0x60, TRANSPORT = 0xe0
};

/* Properties of an opcode. */
enum {
    IS_REQUEST = 1, IS_WRITE = 2, IS_ATOMIC = 4, HAS_IMMEDIATE = 8,
    BEGINS = 16, ENDS = 32, /* first packet of a message; last packet of a message */
    IS_RC_ONLY = 64, IS_SEND = 128
};

struct operation {
    uint8_t is;
    uint8_t headers; /* number of bytes of the headers between BTH and payload */
};

extern const struct operation operations[OPERATIONS];

/* AETH syndromes (IBTA, 9.7.5.1) */
enum {
    /* SYNDROME_RNR is a base value; its low bits are a code of the time to wait */
    SYNDROME_ACK = 0x1f, SYNDROME_RNR = 0x20,
    NAK_SEQUENCE = 0x60, NAK_INVALID = 0x61, NAK_ACCESS = 0x62,
    RNR_WAIT = 1 /* code for 10 us (table 45) */
};

struct packet {
    const uint8_t *frame, *bth, *headers, *payload; /* `headers` are the headers after BTH */
    struct roce_gid source, destination;
    uint32_t qpn, psn;
    uint32_t payload_length; /* number of bytes of the payload, without padding */
    const struct operation *operation;
    uint16_t ethertype;
    uint8_t opcode, padding;
    bool wants_ack;
};

struct domain {
    uint8_t *memory;
    uint64_t length, base;
    uint32_t rkey;
    uint8_t access;
};

struct replay {
    uint64_t before; /* value before the atomic operation */
    uint32_t psn;
    bool is_used;
};

struct queue_pair {
    struct roce_connection with;
    struct domain *domain;
    uint32_t qpn; /* 0 means unused */
    uint32_t psn; /* the next expected PSN */
    uint32_t msn; /* number of completed messages */
    uint32_t receives; /* number of completions for which there is still room */
    bool is_broken, is_nak_sent, is_dropping;
    /* whether a message has begun but not ended; the next fields describe this message */
    bool is_open;
    uint64_t at;
    uint32_t left, written;
    uint32_t next_replay;
    struct replay replays[ROCE_REPLAYS];
};

struct management {
    uint32_t length;
    uint8_t frame[ROCE_MANAGEMENT_ROOM];
};

struct roce_nic {
    pthread_mutex_t lock;
    struct roce_config config;
    struct roce_counts counts;
    struct domain domains[ROCE_DOMAINS];
    uint32_t domains_used;
    struct queue_pair *queue_pairs; /* array index: qpn % config.queue_pairs */
    uint32_t next_qpn;
    struct roce_completion *completions; /* ring; it has room for all waiting completions */
    uint64_t completions_put, completions_taken, completions_room;
    struct roce_refusal refusals[ROCE_REFUSALS]; /* ring */
    uint64_t refusals_put;
    struct management managed[ROCE_MANAGEMENT_FRAMES]; /* ring */
    uint64_t managed_put, managed_taken;
};

/* Processes a frame. If the frame is rejected, `refusal` describes the reason. The caller must have
 * the lock. */
enum roce_reason take_frame(struct roce_nic *nic, const uint8_t *frame, uint32_t length,
                            struct roce_refusal *refusal, struct roce_reply *reply);

/* Processes a frame like take_frame(). If the frame is rejected, stores the refusal. */
void receive_frame(struct roce_nic *nic, const uint8_t *frame, uint32_t length, uint64_t time_ns,
                   struct roce_reply *reply);

enum roce_reason read_packet(const struct roce_nic *nic, const uint8_t *frame, uint32_t length,
                             struct packet *packet, struct roce_refusal *refusal);
uint32_t icrc(const uint8_t *network, const uint8_t *bth, const uint8_t *end);
struct queue_pair *find_queue_pair(struct roce_nic *nic, uint32_t qpn);
enum roce_reason respond(struct roce_nic *nic, struct queue_pair *pair, const struct packet *packet,
                         struct roce_refusal *refusal, struct roce_reply *reply);

/* Content of a response. `before` is the value before an atomic operation. */
struct answer {
    uint32_t psn;
    uint8_t opcode, syndrome;
    uint64_t before;
};

void write_answer(const struct queue_pair *pair, const struct packet *to, struct answer answer,
                  struct roce_reply *reply);
uint16_t ip_checksum(const uint8_t *header);

#endif
