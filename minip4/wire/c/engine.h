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
    /* Links pass frames on as soon as they are sent: `now_ns` is when they will arrive, and the driver keeps
     * them until then. Counters count them as delivered immediately. */
    bool keeps_flying;
    /* Transmits a frame of a port (after its link, if it has one); owns the packet. */
    void (*transmit)(void *user, uint16_t port, struct packet *packet, uint64_t now_ns);
    /* Called for each received frame (`now_ns`: when it arrived), and for each transmitted frame before its
     * link; or NULL. */
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
/* Must be called before links and frames: uses a pool that outlives the engine, so that engines can pass packets
 * to each other. New packets have room for the parsed packet of this program; packets in flight are exchanged
 * when they arrive. */
void engine_share_pool(struct engine *engine, struct packet_pool *pool);
/* Uses another such pool of the same width from now on, for another thread. */
void engine_move_pool(struct engine *engine, struct packet_pool *pool);
/* The minimum time from sending a frame at a port to its arrival; 0 without a link. */
uint64_t engine_lookahead(const struct engine *engine, uint16_t port);
/* Replaces the driver; while transmit is NULL, transmitted frames go back to the pool. */
void engine_set_driver(struct engine *engine, const struct engine_driver *driver);
/* A frame sent to a port that is down is dropped (no_port_drops). */
void engine_set_port(struct engine *engine, uint16_t port, bool is_up);
/* P4 time: the driver's time + offset + the drift (in parts per billion) since since_ns, in microseconds modulo
 * 2^48. */
void engine_set_clock(struct engine *engine, int64_t offset_us, int32_t drift_ppb,
                      uint64_t since_ns);

/* Receives a frame at a port; owns the packet. It arrived at arrived_ns, the time that the program and
 * TAP_IN see, and is processed now: in between it waited for the switch. `now_ns` never decreases between
 * calls and is not before arrived_ns. */
void engine_receive(struct engine *engine, uint16_t port, struct packet *packet,
                    uint64_t arrived_ns, uint64_t now_ns);
/* Prefetches the data that a frame received at this port needs. */
void engine_prefetch(const struct engine *engine, uint16_t port);
/* Continues the prefetch a little later: small tables, and the probable egress port. */
void engine_prefetch_more(const struct engine *engine, uint16_t port);
/* Processes everything due by now_ns (queues, links); returns when to call again, or UINT64_MAX. */
uint64_t engine_advance(struct engine *engine, uint64_t now_ns);

/* The data plane holds the lock for a batch of packets; a waiting control plane briefly gets it between two
 * batches (lock.h). */
void engine_lock(struct engine *engine); /* control plane */
void engine_unlock(struct engine *engine);
void engine_lock_dataplane(struct engine *engine);
void engine_unlock_dataplane(struct engine *engine);

/* The functions below take the lock themselves. */
/* Processes everything due by now_ns with the lock held, before a change of settings. */
void engine_catch_up(struct engine *engine, uint64_t now_ns);

/* Sets the link of a port; config NULL removes it. Its rate shapes the queue before it. False: out of memory. */
bool engine_set_link(struct engine *engine, uint16_t port, const struct link_config *config);
/* The number of queues per port, 1 (default) to ENGINE_MAX_PRIORITIES; the highest is served first. */
void engine_set_priorities(struct engine *engine, uint32_t count);

/* Configures one queue of a port: tail drop above a depth in packets or bytes (of frames in the queue, with the
 * changes of ingress), and limits in packets/s and in bit/s of transmitted frames. Packets that egress drops or
 * recirculates use no bits. */
struct queue_config {
    uint64_t depth_packets; /* 64 at first */
    uint64_t depth_bytes;   /* 0: no limit; so with the rates */
    uint64_t rate_pps, rate_bps;
};
/* Applies from now on, also to packets in the queue. */
void engine_set_queue(struct engine *engine, uint16_t port, uint32_t priority,
                      const struct queue_config *config, uint64_t now_ns);

/* Packets dropped by a full queue pass through egress before, with their own instance type: their clones are
 * processed normally. Clones themselves are excluded. Off by default. */
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
    uint64_t memory_drops;          /* no packet buffer available */
    uint64_t replicas;              /* copies made by multicast and clones */
    uint64_t in_queues;             /* waiting in queues now, or to be parsed again */
};  /* received + replicas = transmitted + all drops + in_queues */
void engine_counters(struct engine *engine, struct engine_counters *out);

/* The reason of a drop, and the port that counts it. */
enum drop_reason {
    DROP_INGRESS,  /* the program, at the end of ingress; counted by the ingress port */
    DROP_MISS,     /* the same, by the default action of a table without a matching entry */
    DROP_NO_GROUP, /* multicast to a group without replicas; counted by the ingress port */
    DROP_EGRESS,   /* the program, at the end of egress; counted by the egress port */
    DROP_NO_PORT,  /* the switch has no such port, or it is down; counted by that port */
    DROP_NO_QUEUE, /* its priority exceeds those of the port; counted by that port */
    DROP_QUEUE,    /* tail drop, queue full; counted by that port */
    DROP_AGAIN,    /* too many packets wait to be parsed again; counted by the ingress port */
    DROP_MEMORY,   /* no buffer for a copy of it; counted by the ingress port */
    DROP_HEADERS,  /* no room for its headers in the buffer; counted by the egress port */
    DROP_REASONS
};
/* By reason; ENGINE_MAX_PORTS: invalid ports. The sum over all equals the drops in engine_counters. */
void engine_drops(struct engine *engine, uint32_t port, uint64_t out[DROP_REASONS]);

#endif
