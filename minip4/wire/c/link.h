/* A link: one direction of a wire with rate, delay, jitter, reordering and seeded loss. No clock, no
 * I/O. */
#ifndef MINIP4_LINK_H
#define MINIP4_LINK_H

#include <stdbool.h>

#include "packet.h"

struct link_config {
    uint64_t rate_bps;    /* serialisation rate of the frame's bytes; 0: none */
    uint64_t delay_ns;    /* propagation */
    uint64_t jitter_ns;   /* the delay is uniform in delay_ns +- jitter_ns (not below 0); frames keep their
                           * order: a frame that would overtake arrives with its predecessor */
    double loss;          /* probability that a frame is lost, 0..1 */
    double reorder;       /* probability that a frame is held back, 0..1 ... */
    uint64_t reorder_ns;  /* ... by this time, while later frames overtake it */
    uint64_t seed;        /* same seed: same frames lost, regardless of other settings */
};

struct link_counters {
    uint64_t sent_packets, sent_bytes;           /* handed to the link */
    uint64_t delivered_packets, delivered_bytes; /* arrived at the far end */
    uint64_t lost_packets, lost_bytes;           /* dropped at random */
};                                               /* sent = delivered + lost + in flight */

/* Called for each frame that the link lost; must copy the frame to keep it. */
typedef void (*link_drop_fn)(void *user, uint64_t now_ns, const uint8_t *frame, uint32_t length);
/* Called with each frame and the exact time of its arrival; takes ownership. */
typedef void (*link_deliver_fn)(void *user, struct packet *packet, uint64_t now_ns);

/* Private to link.c; defined here so that it can be embedded: data that each frame needs, in one cache line. */
struct link {
    uint64_t rate_bps, free_at_ns;
    uint64_t wire_remainder; /* bits x 1e9 modulo the rate, carried over: the rate is exact */
    uint64_t delay_ns : 62;
    uint64_t is_random : 1;   /* 0: all frames are treated alike */
    uint64_t is_passed : 1;  /* by link_pass(): frames that are not lost count as delivered */
    uint64_t last_due_ns;    /* of the frames that keep their order */
    uint64_t sent_packets, sent_bytes;
    struct link_rest *rest;
};

/* False when out of memory. */
bool link_open(struct link *link, const struct link_config *config, struct packet_pool *pool,
               link_deliver_fn deliver, link_drop_fn drop, void *user);
/* Returns the frames in flight to the pool. */
void link_close(struct link *link);
/* The same, with allocated memory. NULL when out of memory. */
struct link *link_create(const struct link_config *config, struct packet_pool *pool,
                         link_deliver_fn deliver, link_drop_fn drop, void *user);
void link_destroy(struct link *link);
/* Applies to frames sent from now on; a new seed restarts the pseudo-random numbers. */
void link_configure(struct link *link, const struct link_config *config);

/* The time when the transmitter is free: a queue before the link must not send earlier. A queue with a waiting
 * frame sends it with now_ns = link_free_at() even if its driver woke late; otherwise late wake-ups would lower
 * the rate. */
uint64_t link_free_at(const struct link *link);
/* The minimum delay of a frame. */
uint64_t link_lookahead_ns(const struct link *link);
/* Returns lost frames to another pool. */
void link_move_pool(struct link *link, struct packet_pool *pool);
/* Sends a frame. Must be called only if now_ns >= link_free_at(). A lost frame also takes transmission time. */
void link_send(struct link *link, struct packet *packet, uint64_t now_ns);
/* The same for a caller that keeps frames in flight itself: true, and the frame arrives at packet->time_ns;
 * false: it was lost. It counts as delivered immediately. */
bool link_pass(struct link *link, struct packet *packet, uint64_t now_ns);
/* Delivers frames due by now_ns in order; returns when to call again (UINT64_MAX: no frame in flight). */
uint64_t link_advance(struct link *link, uint64_t now_ns);
const struct link_counters *link_counters(struct link *link);

#endif
