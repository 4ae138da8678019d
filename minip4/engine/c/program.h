/* The interface between the engine's core and the C code generated from a P4 program: declarations
 * for the generated code, its entry points, and the state that it uses. Generated code does no I/O,
 * reads no clock and allocates no memory. All its input is in a struct context. */
#ifndef MINIP4_PROGRAM_H
#define MINIP4_PROGRAM_H

#include "bits.h"
#include "engine.h"
#include "hash.h"
#include "state.h"
#include "table.h"
#include "trace.h"

/* Values of v1model's instance_type in simple_switch (PacketInstanceType). */
enum instance_type {
    INSTANCE_NORMAL = 0,
    INSTANCE_INGRESS_CLONE = 1,
    INSTANCE_EGRESS_CLONE = 2,
    INSTANCE_RECIRCULATED = 4,
    INSTANCE_REPLICATION = 5,
    INSTANCE_RESUBMITTED = 6,
    INSTANCE_DEFLECTED = 7 /* not in simple_switch; see engine_deflect_on_drop() */
};

enum {
    SESSION_SET = 0x10000,   /* distinguishes a clone to session 0 from a packet without clone */
    MAX_PARSER_STEPS = 1024, /* states per packet, after which ParserTimeout is raised */
    MAX_LOOP_STEPS = 1 << 16, /* loop iterations per packet in a pipeline, including its actions */
    DIGEST_MAX_WORDS = 32
};

/* The start of each parsed packet. This part is the same for all programs. */
struct phv_start {
    uint64_t enqueued_us;    /* in P4 time */
    uint32_t packet_length;  /* changes with setValid and setInvalid, as in simple_switch */
    uint32_t ingress_length; /* length that counters and meters count */
    uint32_t truncate_to;    /* payload bytes after truncation; UINT32_MAX: not truncated */
    uint16_t payload;        /* number of bytes that the parser extracted from the frame */
    uint16_t egress_port;
    uint8_t priority;        /* priority of the packet's queue */
    bool is_clone;
    uint16_t ingress_port;
    uint32_t trace;          /* number of the packet in the trace; 0 means not traced */
};

struct cell {
    uint64_t packets, bytes;
};

enum { COLOURS = 3 }; /* green, yellow, red */

struct meter {
    struct cell counts[COLOURS]; /* packets and bytes of each colour */
    /* The members from here on are the settings. */
    bool is_configured;
    struct bucket {
        double rate_per_us;
        uint64_t rate; /* in units/s */
        uint64_t burst, tokens, filled_us; /* filled_us: time of the last refill */
        /* fraction of a token accumulated since the last refill */
        double fraction;
    } peak, committed;
};

struct array {
    union {
        uint64_t *words; /* registers */
        struct cell *cells;
        struct meter *meters;
    };
    uint32_t size;
};

struct context {
    /* Data that every packet needs, in one cache line. */
    struct packet *packet;
    uint64_t now_ns; /* time of the driver */
    uint64_t now_us; /* P4 time in microseconds, 48 bits */
    struct table *tables;
    /* Requests of the program. The core clears them before each pipeline. */
    struct requests {
        uint32_t egress_spec, mcast_grp;
        uint32_t clone_session; /* session with SESSION_SET, or 0 for no clone */
        uint16_t clone_list, digest, resubmit_list, recirculate_list;
        uint8_t priority; /* 255 means 255 or more */
        bool is_miss;     /* the last mark_to_drop() was caused by a table miss */
    } request;
    uint32_t queue_depth;    /* number of packets in the queue when this packet left it */
    uint32_t waited_us;      /* in ingress: time since the packet's arrival */
    struct array *registers, *counters, *meters;
    struct profile **profiles;
    struct value_set **value_sets;
    uint64_t random[4];
    /* whether the current action runs because a table had no match; assigned only before actions
     * that may drop */
    bool is_miss;
    uint32_t loop_steps;     /* number of loop iterations in this pipeline */
#ifdef MINIP4_TRACE
    struct trace *trace;
#endif
};

struct digest_sample {
    uint16_t digest, words;
    uint64_t word[DIGEST_MAX_WORDS];
};

struct array_spec {
    uint32_t size, limbs;
};

struct program {
    uint32_t phv_size;
    uint32_t tables, registers, counters, meters, profiles, value_sets;
    const struct table_spec *table;
    const struct array_spec *reg, *counter, *meter;
    const struct profile_spec *profile;
    const uint32_t *value_set_words;
    /* Clear the parsed packet and set the metadata of a received frame. */
    void (*start)(struct context *c, uint16_t port);
    void (*parse)(struct context *c);
    void (*ingress)(struct context *c);
    void (*egress)(struct context *c);
    /* Write the headers before the payload. Returns false if there is not enough room. */
    bool (*deparse)(struct context *c);
    void (*clear_metadata)(uint8_t *phv);
    void (*copy_list)(uint32_t list, uint8_t *to, const uint8_t *from);
    void (*set_instance)(uint8_t *phv, enum instance_type type);
    void (*set_length)(uint8_t *phv, uint32_t length);
    void (*set_replica)(uint8_t *phv, uint16_t rid);
    void (*set_enqueued)(uint8_t *phv, uint64_t now_us, uint32_t depth);
    bool (*digest)(uint32_t id, const uint8_t *phv, struct digest_sample *out);
    /* Only of TNA: clear the parsed packet except its start, and write the metadata of egress before
     * the frame; then parse it, or write the headers of ingress. */
    void (*enter_egress)(struct context *c);
    void (*parse_egress)(struct context *c);
    bool (*deparse_ingress)(struct context *c);
};

extern const struct program program;

/* Whether at least one of eight headers is valid. */
ALWAYS_INLINE bool any_valid(const uint8_t *flags)
{
    uint64_t eight;
    memcpy(&eight, flags, sizeof eight);
    return eight != 0;
}

/* Return the arrival time of the current packet, in P4 time. */
ALWAYS_INLINE uint64_t arrived_us(const struct context *c)
{
    return low_bits(c->now_us - c->waited_us, 48);
}

/* --- state that generated code reads and writes ---------------------------------------------- */

extern const uint64_t no_register[];  /* zeros; the result of a read with an index out of bounds */

ALWAYS_INLINE const uint64_t *register_cell(struct context *c, unsigned number, uint32_t size,
                                            unsigned limbs, uint64_t index)
{
    return index < size ? c->registers[number].words + index * limbs : no_register;
}

ALWAYS_INLINE void count(struct context *c, unsigned number, uint32_t size, uint64_t index)
{
    if (index >= size)
        return;
    struct cell *cell = &c->counters[number].cells[index];
    cell->packets++;
    cell->bytes += ((const struct phv_start *)c->packet->phv)->ingress_length;
}

/* Return the colour of a packet of size `amount`: 0 green, 1 yellow, 2 red. */
unsigned meter_colour(struct meter *meter, uint64_t now_us, uint64_t amount, uint64_t bytes);

/* The same for a packet that had a colour before (TNA), which never gets better (RFC 2698). */
unsigned meter_colour_after(struct meter *meter, uint64_t now_us, uint64_t amount, uint64_t bytes,
                            unsigned before);

/* Implement v1model's log_msg: each {} in the text is replaced by the next value. */
void program_log(const char *text, unsigned count, const uint64_t *values);

uint64_t random_between(uint64_t state[4], uint64_t low, uint64_t high);

#endif
