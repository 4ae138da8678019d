/* Private structures of the engine, shared by its source files. */
#ifndef MINIP4_ENGINE_INTERNAL_H
#define MINIP4_ENGINE_INTERNAL_H

#include <stddef.h>

#include "lock.h"
#include "memory.h"
#include "program.h"

enum {
    DEFAULT_QUEUE_DEPTH = 64, /* in packets, as in simple_switch */
    /* packets waiting for another pass of the parser, as in simple_switch */
    MAX_AGAIN = 1024,
    MAX_WORK = 4096,          /* number of packets processed in one call at the same time ... */
    /* ... before time must advance by this step, since a program may clone endlessly */
    PAUSE_NS = 1000,
    MAX_GROUPS = 1 << 16,
    MAX_SESSIONS = 1 << 15,
    MAX_DIGESTS = 4096
};

struct fifo {
    struct packet *first, *last;
    uint32_t count;
};

struct shaper {
    uint64_t rate;      /* in units/s; 0 means no limit */
    uint64_t remainder; /* units * 1e9 modulo the rate, carried over, so that the rate is exact */
    uint64_t ready_ns;  /* earliest time of the next packet */
};

struct queue {
    struct fifo packets;
    uint64_t bytes, drops;
    bool is_set; /* if false, the depth is DEFAULT_QUEUE_DEPTH, and the queue has no other limit */
    struct queue_config config;
    struct shaper pps, bps;
};

/* If a port is up and has a link, a transmission accesses only the link, that is one cache line. */
struct port {
    /* counted only without a link, since a link counts its frames */
    uint64_t transmitted_packets, transmitted_bytes;
    /* due time of the port's queues and link, while the port is in engine.pending */
    uint64_t due_ns;
    uint32_t waiting;      /* number of packets in all its queues */
    uint16_t number;
    bool is_up;
    bool is_shaped;        /* at least one of its queues has a rate */
    _Alignas(CACHE_LINE) struct link link; /* all bytes are 0 if the port has no link */
};

/* The less frequently used data of a port. They are initially zero and rarely written, so only few
 * ports use memory for them. */
struct backlog {
    struct queue queue[ENGINE_MAX_PRIORITIES];
    uint64_t queue_drops;
    uint64_t drops[DROP_REASONS];
    /* arrival time of the next frame on the link; UINT64_MAX if no frame is in flight */
    uint64_t link_due_ns;
    struct link_counters past_links; /* counters of links that were removed or replaced */
};

struct replica {
    uint16_t port, rid;
};

struct replicas {
    uint32_t count, truncate_to;
    struct replica item[];
};

struct engine {
    /* Data that each packet needs, in few cache lines, because a network may have a thousand
     * engines. */
    struct packet_pool *pool;
    uint64_t next_due_ns;
    int64_t clock_offset_us;
    int32_t clock_drift_ppb;
    uint16_t priorities;
    bool is_shaped;            /* at least one of its ports is or was shaped */
    bool is_pool_shared;
    struct engine_driver driver;
    _Alignas(CACHE_LINE) struct context context;
    /* bits of ports that are up and have no waiting packets */
    _Alignas(CACHE_LINE) uint64_t open[ENGINE_MAX_PORTS / 64];
    _Alignas(CACHE_LINE) struct cell received[ENGINE_MAX_PORTS];
    struct port port[ENGINE_MAX_PORTS];
    /* Data that packets need less often. */
    bool deflects;
    uint16_t cpu_port; /* of copy_to_cpu in TNA */
    uint64_t pending[ENGINE_MAX_PORTS / 64]; /* bits of ports that are due */
    uint64_t again_due_ns;     /* time when deferred work continues, or UINT64_MAX */
    uint64_t drifts_since_ns;
    struct backlog *backlog;   /* one per port; the last element counts drops of invalid ports */
    struct engine_counters counters; /* without the counts of ports, see engine_counters() */
    struct fifo again;         /* resubmitted and recirculated packets, which are parsed next */
    uint8_t *scratch;          /* memory for one parsed packet */
    struct replicas **groups, **sessions; /* NULL until the first group or session is set */
    struct digest_sample *digests;        /* NULL until the first digest is generated */
    uint32_t digest_first, digest_count;
    uint64_t digests_lost;
    struct fifo collected;     /* transmitted frames, for tests */
    struct change *changes, **changes_end; /* changes of the batch except in tables, see change.c */
    struct lock lock;
};

static inline struct engine *engine_of(struct port *port)
{
    struct port *first = port - port->number;
    return (struct engine *)(void *)((char *)first - offsetof(struct engine, port));
}

/* Return port->number, without access to that cache line. */
static inline uint16_t number_of(const struct engine *e, const struct port *port)
{
    return (uint16_t)(port - e->port);
}

static inline bool has_link(const struct port *port)
{
    return port->link.rest != NULL;
}

static inline struct backlog *backlog_of(const struct engine *e, const struct port *port)
{
    return &e->backlog[number_of(e, port)];
}

_Static_assert(offsetof(struct engine, driver.tap) + sizeof(void *) <= CACHE_LINE &&
                   offsetof(struct context, registers) <= CACHE_LINE &&
                   sizeof(struct link) == CACHE_LINE,
               "what each packet needs lies in few cache lines");

/* pipeline.c */
void pipeline_ingress(struct engine *e, uint16_t port);
void pipeline_again(struct engine *e, struct packet *packet);
void pipeline_egress(struct engine *e, struct port *port, struct packet *packet, uint32_t depth,
                     uint8_t priority);

/* Run the egress pipeline for a packet whose queue is full. The caller drops the packet
 * afterwards. */
void pipeline_deflect(struct engine *e, struct port *port, struct packet *packet,
                      const struct queue *queue);

/* queue_discipline.c: the traffic manager */
void fifo_push(struct fifo *fifo, struct packet *packet);
struct packet *fifo_pop(struct fifo *fifo);
void traffic_enqueue(struct engine *e, uint16_t port, struct packet *packet);
/* Enqueue the packet, or send it immediately if nothing delays it; takes ownership. */
void traffic_forward(struct engine *e, uint16_t port, struct packet *packet);
void traffic_transmit(struct engine *e, struct port *port, struct packet *packet);
/* Returns false if out of memory. */
bool traffic_make_link(struct port *port, const struct link_config *config);
/* Update the due time of a port. Must be called after its queues, link, rates or state have
 * changed. */
void traffic_settle(struct engine *e, struct port *port);
/* Count a drop and return the packet to the pool. */
void traffic_drop(struct engine *e, struct packet *packet, enum drop_reason reason, uint32_t port);
void traffic_count_drop(struct engine *e, enum drop_reason reason, uint32_t port);

/* control_state.c */
void profiles_settle(struct engine *e, bool is_committed);

/* state.c */
struct array *array_create(const struct array_spec *spec, uint32_t count, size_t cell);
void array_destroy(struct array *array, uint32_t count);
void random_seed(uint64_t state[4], uint64_t seed);

static inline struct phv_start *phv_start(struct packet *packet)
{
    return (struct phv_start *)(void *)packet->phv;
}

#endif
