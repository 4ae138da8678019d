/* A link: one direction of a wire with rate, delay, jitter, reordering and seeded loss. The link
 * has no clock and does no I/O. */
#ifndef MINIP4_LINK_H
#define MINIP4_LINK_H

#include <stdbool.h>

#include "packet.h"

struct link_config {
    uint64_t rate_bps;    /* rate in bit/s of the frame's bytes; 0 means unlimited */
    uint64_t delay_ns;    /* propagation */
    /* the delay is uniform in delay_ns +- jitter_ns (not below 0). Frames keep their order, so a
     * frame that would overtake the previous frame arrives together with it */
    uint64_t jitter_ns;
    double loss;          /* probability that a frame is lost, 0..1 */
    double reorder;       /* probability that a frame is held back, 0..1 */
    /* additional delay of a frame held back, while later frames overtake it */
    uint64_t reorder_ns;
    /* with the same seed, the same frames are lost, regardless of other settings */
    uint64_t seed;
};

struct link_counters {
    uint64_t sent_packets, sent_bytes;           /* sent to the link */
    uint64_t delivered_packets, delivered_bytes; /* arrived at the other end */
    uint64_t lost_packets, lost_bytes;           /* dropped at random */
};                                               /* sent = delivered + lost + in flight */

/* Called for each frame that the link lost. Must copy the frame to store it. */
typedef void (*link_drop_fn)(void *user, uint64_t now_ns, const uint8_t *frame, uint32_t length);
/* Called with each frame and the exact arrival time; takes ownership. */
typedef void (*link_deliver_fn)(void *user, struct packet *packet, uint64_t now_ns);

/* Private to link.c, but defined here so that it can be embedded. The data that each frame needs
 * are in one cache line. */
struct link {
    uint64_t rate_bps, free_at_ns;
    /* bits * 1e9 modulo the rate, carried over, so that the rate is exact */
    uint64_t wire_remainder;
    uint64_t delay_ns : 62;
    uint64_t is_random : 1;   /* false if the link has no loss, jitter or reordering */
    /* the caller uses link_pass(), so frames that are not lost count as delivered */
    uint64_t is_passed : 1;
    uint64_t last_due_ns;    /* due time of the last frame that keeps its order */
    uint64_t sent_packets, sent_bytes;
    struct link_rest *rest;
};

/* Initialize a link. Returns false if out of memory. */
bool link_open(struct link *link, const struct link_config *config, struct packet_pool *pool,
               link_deliver_fn deliver, link_drop_fn drop, void *user);
/* Return the frames in flight to the pool. */
void link_close(struct link *link);
/* Create a link in allocated memory. Returns NULL if out of memory. */
struct link *link_create(const struct link_config *config, struct packet_pool *pool,
                         link_deliver_fn deliver, link_drop_fn drop, void *user);
void link_destroy(struct link *link);
/* Change the settings for frames sent from now on. A new seed restarts the pseudo-random
 * numbers. */
void link_configure(struct link *link, const struct link_config *config);

/* Return the time when the transmitter is free. The queue in front of the link must not send
 * earlier. If a frame waits, the queue sends it with now_ns = link_free_at(), even if the driver
 * woke late; otherwise, late wake-ups would lower the rate. */
uint64_t link_free_at(const struct link *link);
/* Return the minimum delay of a frame, in ns. */
uint64_t link_lookahead_ns(const struct link *link);
/* From now on, return lost frames to another pool. */
void link_move_pool(struct link *link, struct packet_pool *pool);
/* Send a frame. May be called only if now_ns >= link_free_at(). A lost frame also takes
 * transmission time. */
void link_send(struct link *link, struct packet *packet, uint64_t now_ns);
/* Send a frame for a caller that stores frames in flight itself. Returns false if the frame was
 * lost. Otherwise, packet->time_ns is the arrival time, and the frame counts as delivered
 * immediately. */
bool link_pass(struct link *link, struct packet *packet, uint64_t now_ns);
/* Deliver the frames due by now_ns, in order. Returns the time at which to call the function again,
 * or UINT64_MAX if no frame is in flight. */
uint64_t link_advance(struct link *link, uint64_t now_ns);
const struct link_counters *link_counters(struct link *link);

#endif
