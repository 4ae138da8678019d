/* A packet: one frame and its pool. A packet always has exactly one owner. */
#ifndef MINIP4_PACKET_H
#define MINIP4_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    PACKET_ROOM = 1024,     /* bytes kept free before the frame, for headers that grow */
    PACKET_MAX_FRAME = 9216 /* longest frame that a port takes (jumbo) */
};

struct packet {
    struct packet *next; /* for the owner: free list, queue, batch */
    uint8_t *data;       /* the frame's first byte; lies in buffer */
    uint32_t length;     /* bytes of the frame */
    uint32_t source, hops; /* for the creator; 0 at first */
    uint32_t phv_size;   /* bytes of: */
    uint8_t *phv;        /* parsed headers and metadata, in the layout of the generated code */
    uint64_t time_ns;    /* for the owner: when it is due */
    uint8_t buffer[];
};

/* Packets of one size, at most 65,536 by default; not thread-safe: one pool per thread. */
struct packet_pool;

/* NULL when out of memory. */
struct packet_pool *packet_pool_create(uint32_t phv_size);
/* Frees every packet of the pool, regardless of its owner. */
void packet_pool_destroy(struct packet_pool *pool);
void packet_pool_set_limit(struct packet_pool *pool, uint64_t packets);
/* From now on *is_short is set when packet_take() fails. */
void packet_pool_tell(struct packet_pool *pool, bool *is_short);
/* Another pool for another thread, as wide as the first: packets may be taken from one and returned to the
 * other; both share the limit. NULL when out of memory. */
struct packet_pool *packet_pool_another(struct packet_pool *pool);
/* Makes such a pool as wide as the first. */
void packet_pool_match(struct packet_pool *pool, const struct packet_pool *first);
/* Removes an unused packet, to be given to another such pool; NULL: none. */
struct packet *packet_lend(struct packet_pool *pool);
/* Packets taken from now on have a phv of at least `bytes` bytes; smaller ones are retired when they are returned. */
void packet_pool_widen(struct packet_pool *pool, uint32_t phv_size);

/* An empty packet (length 0, data after PACKET_ROOM, phv of any content, aligned to 16 bytes), or
 * NULL when out of memory. */
struct packet *packet_take(struct packet_pool *pool);
void packet_give(struct packet_pool *pool, struct packet *packet);
/* Replaces a packet by another one with the same frame and the current phv size. NULL: out of memory; the caller
 * still owns the packet. */
struct packet *packet_exchange(struct packet_pool *pool, struct packet *packet);
/* Moves a frame of at most PACKET_MAX_FRAME bytes, so that there is PACKET_ROOM for growing headers again. */
static inline void packet_make_room(struct packet *packet)
{
    uint8_t *start = packet->buffer + PACKET_ROOM;
    if (packet->data < start)
        packet->data = memmove(start, packet->data, packet->length);
}

#endif
