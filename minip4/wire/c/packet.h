/* A packet: one frame, and the pool that it comes from. A packet always has exactly one owner. */
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

/* Packets of one size, at most 65,536 at first; not thread-safe: one pool for each thread. */
struct packet_pool;

/* NULL when out of memory. */
struct packet_pool *packet_pool_create(uint32_t phv_size);
/* Frees every packet of the pool, regardless of its owner. */
void packet_pool_destroy(struct packet_pool *pool);
void packet_pool_set_limit(struct packet_pool *pool, uint64_t packets);
/* From now on *is_short becomes true when packet_take() has none to give. */
void packet_pool_tell(struct packet_pool *pool, bool *is_short);
/* Another pool for another thread, as wide as the first: packets may be taken from the one and given to the
 * other, and the limit is one for both. NULL when out of memory. */
struct packet_pool *packet_pool_another(struct packet_pool *pool);
/* Makes such a pool as wide as the first. */
void packet_pool_match(struct packet_pool *pool, const struct packet_pool *first);
/* A packet that waits to be used, to be given to another such pool; NULL: none does. */
struct packet *packet_lend(struct packet_pool *pool);
/* Packets that are taken from now on have a phv of at least so many bytes; what has less goes out of
 * use, as soon as it is given back. */
void packet_pool_widen(struct packet_pool *pool, uint32_t phv_size);

/* An empty packet (length 0, data after PACKET_ROOM, phv of any content, aligned to 16 bytes), or
 * NULL when out of memory. */
struct packet *packet_take(struct packet_pool *pool);
void packet_give(struct packet_pool *pool, struct packet *packet);
/* Gives a packet back and returns another with the same frame, and with the phv that packets have now.
 * NULL: out of memory, and the packet is still its owner's. */
struct packet *packet_exchange(struct packet_pool *pool, struct packet *packet);
/* Moves a frame, of at most PACKET_MAX_FRAME bytes, so that there is PACKET_ROOM again for headers that
 * grow. */
static inline void packet_make_room(struct packet *packet)
{
    uint8_t *start = packet->buffer + PACKET_ROOM;
    if (packet->data < start)
        packet->data = memmove(start, packet->data, packet->length);
}

#endif
