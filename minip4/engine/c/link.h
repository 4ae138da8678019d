/* A link: one direction of a wire with rate, delay and seeded loss. No clock, no I/O. */
#ifndef MINIP4_LINK_H
#define MINIP4_LINK_H

#include "packet.h"

struct link_config {
    uint64_t rate_bps;    /* serialisation rate of the frame's bytes; 0: none */
    uint64_t delay_ns;    /* propagation */
    double loss;          /* probability that a frame is lost, 0..1, drawn for each frame */
    uint64_t seed;        /* the loss dice: same seed, same frames lost */
};

struct link_counters {
    uint64_t sent_packets, sent_bytes;           /* handed to the link */
    uint64_t delivered_packets, delivered_bytes; /* came out at the far end */
    uint64_t lost_packets, lost_bytes;           /* dropped by the dice */
};                                               /* sent = delivered + lost + in flight */

enum { LINK_DROP_SNAPLEN = 128 };

/* Told of each frame that the link lost; must copy what it keeps. */
typedef void (*link_drop_fn)(void *user, uint64_t now_ns, const uint8_t *frame, uint32_t length);
/* Given each frame at the instant that it comes out; owns it from then on. */
typedef void (*link_deliver_fn)(void *user, struct packet *packet, uint64_t now_ns);

struct link;

struct link *link_create(const struct link_config *config, struct packet_pool *pool,
                         link_deliver_fn deliver, link_drop_fn drop, void *user);
void link_destroy(struct link *link);
void link_configure(struct link *link, const struct link_config *config);

/* The time from which the transmitter is free: a queue before the link sends no earlier. */
uint64_t link_free_at(const struct link *link);
/* Hands a frame over. May be called only when now_ns >= link_free_at(). */
void link_send(struct link *link, struct packet *packet, uint64_t now_ns);
/* Delivers what is due by now_ns; returns when to call again (UINT64_MAX: nothing in flight). */
uint64_t link_advance(struct link *link, uint64_t now_ns);
const struct link_counters *link_counters(const struct link *link);

#endif
