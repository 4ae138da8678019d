/* The engine: one P4 switch as a state machine. The engine has no clock and does no I/O. A driver
 * passes frames and the current time to the engine. The driver uses packet sockets in real time and
 * an event queue in virtual time; tests are drivers, too. Only one thread at a time may call
 * functions of an engine, see engine_lock(). */
#ifndef MINIP4_ENGINE_H
#define MINIP4_ENGINE_H

#include <stdbool.h>

#include "link.h"
#include "packet.h"

enum { ENGINE_MAX_PORTS = 512, ENGINE_DROP_PORT = 511, ENGINE_MAX_PRIORITIES = 8 };

enum engine_tap { TAP_IN, TAP_OUT };

struct engine_driver {
    void *user;
    /* If set, links pass frames to the driver as soon as they are sent. `now_ns` is then the
     * arrival time, and the driver stores the frames until this time. Counters count them as
     * delivered immediately. */
    bool keeps_flying;
    /* Transmit a frame that leaves through a port; takes ownership of the packet. If the port has a
     * link, the frame has crossed the link (but see keeps_flying). */
    void (*transmit)(void *user, uint16_t port, struct packet *packet, uint64_t now_ns);
    /* Called for each received frame (`now_ns` is the arrival time), and for each transmitted frame
     * before it enters the link. May be NULL. */
    void (*tap)(void *user, enum engine_tap tap, uint16_t port, const struct packet *packet,
                uint64_t now_ns);
    /* Called for each frame that a link lost. May be NULL. */
    void (*link_drop)(void *user, uint16_t port, uint64_t now_ns, const uint8_t *frame,
                      uint32_t length);
    /* Called if a digest or another notification waits (engine_digest_*). May be NULL. */
    void (*notify)(void *user);
};

struct engine;

/* Create an engine. Returns NULL if out of memory. All ports are down at first. */
struct engine *engine_create(const struct engine_driver *driver, uint64_t seed);
void engine_destroy(struct engine *engine);
struct packet_pool *engine_pool(struct engine *engine);
/* Use a pool that outlives the engine, so that engines can pass packets to each other. Must be
 * called before links are set and frames received. New packets have room for the parsed packet of
 * this program. Packets in flight that are too small are replaced when they arrive. */
void engine_share_pool(struct engine *engine, struct packet_pool *pool);
/* From now on, use another shared pool with the same packet size, for another thread. */
void engine_move_pool(struct engine *engine, struct packet_pool *pool);
/* Return the minimum time from sending a frame at a port to its arrival, in ns; 0 without a
 * link. */
uint64_t engine_lookahead(const struct engine *engine, uint16_t port);
/* Replace the driver. While transmit is NULL, transmitted frames return to the pool. */
void engine_set_driver(struct engine *engine, const struct engine_driver *driver);
/* Set a port up or down. A frame sent to a port that is down is dropped (no_port_drops). */
void engine_set_port(struct engine *engine, uint16_t port, bool is_up);
/* Set the P4 time, in microseconds modulo 2^48: the driver's time plus an offset, plus a drift (in
 * parts per billion) that started at since_ns. */
void engine_set_clock(struct engine *engine, int64_t offset_us, int32_t drift_ppb,
                      uint64_t since_ns);

/* Receive a frame at a port; takes ownership of the packet. The program and TAP_IN see arrived_ns
 * as its arrival time. The engine processes the frame now. The interval since arrived_ns counts as
 * waiting in the switch. `now_ns` never decreases between calls and is not before arrived_ns. */
void engine_receive(struct engine *engine, uint16_t port, struct packet *packet,
                    uint64_t arrived_ns, uint64_t now_ns);
/* Prefetch the data that a frame received at this port needs. */
void engine_prefetch(const struct engine *engine, uint16_t port);
/* Second step of the prefetch, a little later: small tables and the probable egress port. */
void engine_prefetch_more(const struct engine *engine, uint16_t port);
/* Process all work of queues and links that is due by now_ns. Returns the time at which to call the
 * function again, or UINT64_MAX. */
uint64_t engine_advance(struct engine *engine, uint64_t now_ns);

/* The data plane holds the lock while it processes a batch of packets. Between two batches, a
 * waiting control plane briefly gets the lock (lock.h). */
void engine_lock(struct engine *engine); /* for the control plane */
void engine_unlock(struct engine *engine);
void engine_lock_dataplane(struct engine *engine);
void engine_unlock_dataplane(struct engine *engine);

/* The functions below acquire the lock themselves. */
/* Process all work that is due by now_ns, before a change of settings. */
void engine_catch_up(struct engine *engine, uint64_t now_ns);

/* Set the link of a port; config NULL removes the link. The queue of the port sends at the rate of
 * the link. Returns false if out of memory. */
bool engine_set_link(struct engine *engine, uint16_t port, const struct link_config *config);
/* Set the number of queues per port, 1 (default) to ENGINE_MAX_PRIORITIES. The highest queue is
 * served first. */
void engine_set_priorities(struct engine *engine, uint32_t count);

/* Configuration of one queue of a port. Frames above the depth, in packets or bytes, are dropped
 * (tail drop). The bytes are those of the frames after ingress. The rates limit the transmitted
 * frames, in packets/s and in bit/s. Packets that egress drops or recirculates do not count towards
 * the limit in bit/s. */
struct queue_config {
    uint64_t depth_packets; /* 64 by default */
    uint64_t depth_bytes;   /* 0 means no limit, also for the rates */
    uint64_t rate_pps, rate_bps;
};
/* Configure a queue; the new configuration also applies to packets in the queue. */
void engine_set_queue(struct engine *engine, uint16_t port, uint32_t priority,
                      const struct queue_config *config, uint64_t now_ns);

/* Set whether packets dropped by a full queue are first processed in egress, with their own
 * instance type. Clones of these packets are processed normally. Dropped packets that are clones
 * themselves are not processed. The default is off. */
void engine_deflect_on_drop(struct engine *engine, bool is_on);

/* Set the port to which TNA programs send copies with copy_to_cpu. The default is 64. */
void engine_set_cpu_port(struct engine *engine, uint16_t port);

struct queue_state {
    struct queue_config config;
    uint64_t packets, bytes; /* packets and bytes that are in the queue now */
    uint64_t drops;          /* tail drops */
};
void engine_queue_state(struct engine *engine, uint16_t port, uint32_t priority,
                        struct queue_state *out);

struct engine_port_counters {
    uint64_t received_packets, received_bytes;
    uint64_t transmitted_packets, transmitted_bytes; /* sent by the switch to the link */
    uint64_t queue_drops;                            /* tail drops of the egress queue */
    uint64_t enqueued_now;                           /* packets in the queue now */
    struct link_counters link;                       /* all zero without a link */
};
void engine_port_counters(struct engine *engine, uint16_t port, struct engine_port_counters *out);

struct engine_counters {
    uint64_t received, transmitted; /* packets of all ports; links may lose transmitted ones */
    uint64_t ingress_drops;         /* dropped by the program at the end of ingress */
    uint64_t egress_drops;          /* dropped by the program at the end of egress */
    uint64_t queue_drops;           /* tail drops */
    uint64_t no_port_drops;         /* sent to a port that the switch does not have */
    uint64_t memory_drops;          /* no packet buffer available */
    uint64_t replicas;              /* copies made by multicast and cloning */
    uint64_t in_queues;             /* in queues now, or waiting for another pass of the parser */
};  /* received + replicas = transmitted + all drops + in_queues */
void engine_counters(struct engine *engine, struct engine_counters *out);

/* The reason of a drop, and the port that counts the drop. */
enum drop_reason {
    DROP_INGRESS,  /* dropped by the program at the end of ingress; counted by the ingress port */
    DROP_MISS,     /* like DROP_INGRESS, by the default action of a table without a match */
    DROP_NO_GROUP, /* multicast to a group without replicas; counted by the ingress port */
    DROP_EGRESS,   /* dropped by the program at the end of egress; counted by the egress port */
    DROP_NO_PORT,  /* the switch has no such port, or the port is down; counted by this port */
    DROP_NO_QUEUE, /* no queue for the packet's priority; counted by the egress port */
    DROP_QUEUE,    /* tail drop by a full queue; counted by the egress port */
    /* too many packets wait for another pass of the parser; counted by the ingress port */
    DROP_AGAIN,
    DROP_MEMORY,   /* no buffer for a copy; counted by the ingress port */
    DROP_HEADERS,  /* no room for the headers in the buffer; counted by the egress port */
    DROP_REASONS
};
/* Get the drops of a port by reason. Port ENGINE_MAX_PORTS stands for invalid ports. The sum over
 * all ports equals the drops in engine_counters. */
void engine_drops(struct engine *engine, uint32_t port, uint64_t out[DROP_REASONS]);

#endif
