/* Packets and their pools. A packet has one frame, and always has exactly one owner. */
#ifndef MINIP4_PACKET_H
#define MINIP4_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    PACKET_ROOM = 1024,     /* free bytes before the frame, for headers that grow */
    PACKET_MAX_FRAME = 9216 /* bytes of the longest frame that a port receives (jumbo frame) */
};

struct packet {
    struct packet *next; /* link in the owner's free list, queue or batch */
    uint8_t *data;       /* the first byte of the frame, within buffer */
    uint32_t length;     /* bytes of the frame */
    uint32_t source, hops; /* free for use by the creator; initially 0 */
    uint32_t phv_size;   /* size of phv in bytes */
    uint8_t *phv;        /* parsed headers and metadata, as laid out by the generated code */
    uint64_t time_ns;    /* set by the owner: the due time */
    uint8_t buffer[];
};

/* Packets of one size, at most 65,536 by default. Not thread-safe: each thread has its own pool. */
struct packet_pool;

/* Create a pool. Returns NULL if out of memory. */
struct packet_pool *packet_pool_create(uint32_t phv_size);
/* Free all packets of the pool, regardless of their owners. */
void packet_pool_destroy(struct packet_pool *pool);
void packet_pool_set_limit(struct packet_pool *pool, uint64_t packets);
/* From now on, set *is_short when packet_take() fails. */
void packet_pool_tell(struct packet_pool *pool, bool *is_short);
/* Create another pool with the same packet size for another thread. Packets may be taken from one
 * pool and returned to the other, and both pools share the limit. Returns NULL if out of memory. */
struct packet_pool *packet_pool_another(struct packet_pool *pool);
/* Give a pool of packet_pool_another() the packet size of `first`. */
void packet_pool_match(struct packet_pool *pool, const struct packet_pool *first);
/* Remove an unused packet, in order to move it to a pool of packet_pool_another(). Returns NULL if
 * there is none. */
struct packet *packet_lend(struct packet_pool *pool);
/* From now on, give packets a phv of at least `phv_size` bytes. Packets with a smaller phv are
 * retired when they are returned. */
void packet_pool_widen(struct packet_pool *pool, uint32_t phv_size);

/* Return an empty packet (length 0, data after PACKET_ROOM, phv uninitialized and aligned to 16
 * bytes). Returns NULL if out of memory. */
struct packet *packet_take(struct packet_pool *pool);
void packet_give(struct packet_pool *pool, struct packet *packet);
/* Replace a packet by one with the same frame, and with the current phv size. Returns NULL if out
 * of memory; the caller then still owns the packet. */
struct packet *packet_exchange(struct packet_pool *pool, struct packet *packet);
/* Move a frame of at most PACKET_MAX_FRAME bytes, so that PACKET_ROOM bytes before it are free
 * again. */
static inline void packet_make_room(struct packet *packet)
{
    uint8_t *start = packet->buffer + PACKET_ROOM;
    if (packet->data < start)
        packet->data = memmove(start, packet->data, packet->length);
}

#endif
