/* The engine: one P4 switch as a state machine. It has no clock and does no I/O: its driver (packet
 * sockets in real time, an event queue in virtual time, a test) passes frames and the current time.
 * Calls on one engine come from one thread at a time, see engine_lock(). */
#ifndef MINIP4_ENGINE_H
#define MINIP4_ENGINE_H

#include <stdbool.h>

#include "link.h"
#include "packet.h"

enum { ENGINE_MAX_PORTS = 512, ENGINE_DROP_PORT = 511, ENGINE_MAX_PRIORITIES = 8 };

enum engine_tap { TAP_IN, TAP_OUT };

struct engine_driver {
    void *user;
    /* Links hand frames over as soon as they are sent: `now_ns` is when they will come out, and the
     * driver keeps them until then. Counters have them as delivered at once. */
    bool keeps_flying;
    /* A frame leaves by a port (behind its link, where it has one); owns the packet. */
    void (*transmit)(void *user, uint16_t port, struct packet *packet, uint64_t now_ns);
    /* Sees each frame that enters (`now_ns`: when it arrived), and each that leaves before its link;
     * or NULL. */
    void (*tap)(void *user, enum engine_tap tap, uint16_t port, const struct packet *packet,
                uint64_t now_ns);
    /* Called for each frame that a link lost; or NULL. */
    void (*link_drop)(void *user, uint16_t port, uint64_t now_ns, const uint8_t *frame,
                      uint32_t length);
    /* A digest or another notification waits (engine_digest_*); or NULL. */
    void (*notify)(void *user);
};

struct engine;

/* NULL when out of memory. All ports are down at first. */
struct engine *engine_create(const struct engine_driver *driver, uint64_t seed);
void engine_destroy(struct engine *engine);
struct packet_pool *engine_pool(struct engine *engine);
/* Before links and frames: packets come from, and go to, a pool that outlives the engine, so that
 * engines can hand packets to each other. Its packets have room for what this program parses from now
 * on; those on their way are exchanged when they get here. */
void engine_share_pool(struct engine *engine, struct packet_pool *pool);
/* Another such pool from now on, as wide as the one before: its thread is another. */
void engine_move_pool(struct engine *engine, struct packet_pool *pool);
/* The least time from when a port sends a frame to when it arrives; 0 without a link. */
uint64_t engine_lookahead(const struct engine *engine, uint16_t port);
/* Replaces the driver; a frame that leaves while transmit is NULL goes back to the pool. */
void engine_set_driver(struct engine *engine, const struct engine_driver *driver);
/* A frame sent to a port that is down is dropped (no_port_drops). */
void engine_set_port(struct engine *engine, uint16_t port, bool is_up);
/* P4 time: driver's time + offset + what a clock that is drift_ppb too fast gains since since_ns,
 * in microseconds modulo 2^48. */
void engine_set_clock(struct engine *engine, int64_t offset_us, int32_t drift_ppb,
                      uint64_t since_ns);

/* Receives a frame at a port; owns the packet. It arrived at arrived_ns, the time that the program and
 * TAP_IN see, and is processed now: in between it waited for the switch. `now_ns` never decreases between
 * calls and is not before arrived_ns. */
void engine_receive(struct engine *engine, uint16_t port, struct packet *packet,
                    uint64_t arrived_ns, uint64_t now_ns);
/* Brings what a frame that comes in at this port will need into the cache. */
void engine_prefetch(const struct engine *engine, uint16_t port);
/* Goes on with it a little later: small tables, and the port by which it will probably leave. */
void engine_prefetch_more(const struct engine *engine, uint16_t port);
/* Does what is due by now_ns (queues, links); returns when to call again, or UINT64_MAX. */
uint64_t engine_advance(struct engine *engine, uint64_t now_ns);

/* The data plane holds the lock for a batch of packets; a control plane that waits is let in between two
 * batches, for a moment (lock.h). */
void engine_lock(struct engine *engine); /* control plane */
void engine_unlock(struct engine *engine);
void engine_lock_dataplane(struct engine *engine);
void engine_unlock_dataplane(struct engine *engine);

/* The settings and counters below take the lock by themselves. */
/* Does what is due by now_ns under the lock: before a change of settings. */
void engine_catch_up(struct engine *engine, uint64_t now_ns);

/* A link behind a port: config NULL takes it away. Rates shape the queue before it. False: no memory. */
bool engine_set_link(struct engine *engine, uint16_t port, const struct link_config *config);
/* Queues of every port, 1 (at first) to ENGINE_MAX_PRIORITIES; of two, the higher is served first. */
void engine_set_priorities(struct engine *engine, uint32_t count);

/* One queue of a port: tail drop beyond a depth in packets or in bytes (of frames as they wait: with
 * the headers that ingress added or took away); and at most so many packets, and bits of the frames
 * that leave, a second. What egress drops or recirculates costs no bits. */
struct queue_config {
    uint64_t depth_packets; /* 64 at first */
    uint64_t depth_bytes;   /* 0: no limit; so with the rates */
    uint64_t rate_pps, rate_bps;
};
/* Holds from now on, also for what waits already. */
void engine_set_queue(struct engine *engine, uint16_t port, uint32_t priority,
                      const struct queue_config *config, uint64_t now_ns);

/* A packet that finds its queue full goes through egress before it is dropped, with an instance type of its
 * own: what the program clones of it goes on. Not so what is a clone itself. Off at first. */
void engine_deflect_on_drop(struct engine *engine, bool is_on);

struct queue_state {
    struct queue_config config;
    uint64_t packets, bytes; /* waiting now */
    uint64_t drops;          /* at its tail */
};
void engine_queue_state(struct engine *engine, uint16_t port, uint32_t priority,
                        struct queue_state *out);

struct engine_port_counters {
    uint64_t received_packets, received_bytes;
    uint64_t transmitted_packets, transmitted_bytes; /* left the switch, before the link */
    uint64_t queue_drops;                            /* tail drops of its egress queue */
    uint64_t enqueued_now;                           /* packets waiting in its queue */
    struct link_counters link;                       /* zero without a link */
};
void engine_port_counters(struct engine *engine, uint16_t port, struct engine_port_counters *out);

struct engine_counters {
    uint64_t received, transmitted; /* packets over all ports, before links */
    uint64_t ingress_drops;         /* the program dropped it at the end of ingress */
    uint64_t egress_drops;          /* the program dropped it at the end of egress */
    uint64_t queue_drops;           /* tail drops */
    uint64_t no_port_drops;         /* sent to a port that the switch does not have */
    uint64_t memory_drops;          /* no packet buffer to be had */
    uint64_t replicas;              /* copies made by multicast and clones */
    uint64_t in_queues;             /* waiting in queues now, or to be parsed again */
};  /* received + replicas = transmitted + all drops + in_queues */
void engine_counters(struct engine *engine, struct engine_counters *out);

/* Why a packet was dropped, and of which port that counts. */
enum drop_reason {
    DROP_INGRESS,  /* the program, at the end of ingress; the port that it came in at */
    DROP_MISS,     /* the same, by the default action of a table that had no entry for it */
    DROP_NO_GROUP, /* multicast to a group that has no replicas; the port that it came in at */
    DROP_EGRESS,   /* the program, at the end of egress; the port that it was to leave by */
    DROP_NO_PORT,  /* the switch has no such port, or it is down; that port */
    DROP_NO_QUEUE, /* its priority is above those that the port has; that port */
    DROP_QUEUE,    /* tail drop, queue full; that port */
    DROP_AGAIN,    /* too many wait to be parsed again; the port that it came in at */
    DROP_MEMORY,   /* no buffer for a copy of it; the port that it came in at */
    DROP_HEADERS,  /* no room for its headers in its buffer; the port that it was to leave by */
    DROP_REASONS
};
/* By reason; of ENGINE_MAX_PORTS: those of ports that cannot be. The sum over all is that of the
 * drops in engine_counters. */
void engine_drops(struct engine *engine, uint32_t port, uint64_t out[DROP_REASONS]);

#endif
