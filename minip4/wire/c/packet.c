/* The packet pool. Packets are allocated in slabs. Returned packets are used first, because they
 * are in the cache. */
#include "packet.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(start, size) ASAN_POISON_MEMORY_REGION(start, size)
#define UNPOISON(start, size) ASAN_UNPOISON_MEMORY_REGION(start, size)
#else
#define POISON(start, size) ((void)(start), (void)(size))
#define UNPOISON(start, size) ((void)(start), (void)(size))
#endif

enum {
    ALIGNMENT = 16,
    /* space between the parts of a slot, poisoned if AddressSanitizer is used */
    GUARD = 64,
    /* about 700 KB of address space per slab; only accessed pages use memory */
    SLAB_PACKETS = 64,
    MAX_PACKETS = 1 << 16 /* enough for half a second of link delay at 130,000 packets/s */
};

/* Packets that were allocated together. */
struct slab {
    struct slab *next;
    size_t size; /* size of its slots */
    _Alignas(ALIGNMENT) uint8_t slots[];
};

/* The members of a slot are: phv (parsed headers), guard, struct packet with its buffer, guard. The
 * phv is first, so that the phv, the packet and the start of a short frame are on one or two
 * pages. */
struct packet_pool {
    struct packet *free;
    size_t phv_size;  /* size of a phv, as requested */
    size_t phv_room;  /* the same size, rounded up */
    size_t slot_size;
    struct packet_pool *first;   /* the pool with the limit and count; often this pool itself */
    _Atomic uint64_t packets;    /* allocated or reserved; used only in the first pool */
    uint64_t max_packets;        /* limit; used only in the first pool */
    bool *is_short;   /* set when the pool is out of packets; may be NULL */
    unsigned fresh;   /* number of slots of the newest slab that were never used */
    struct slab *newest;
};

static size_t round_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void set_phv_size(struct packet_pool *pool, uint32_t phv_size)
{
    pool->phv_size = phv_size;
    pool->phv_room = round_up(phv_size);
    pool->slot_size = pool->phv_room + GUARD +
                      round_up(sizeof(struct packet) + PACKET_ROOM + PACKET_MAX_FRAME) + GUARD;
}

struct packet_pool *packet_pool_create(uint32_t phv_size)
{
    struct packet_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->first = pool;
    pool->max_packets = MAX_PACKETS;
    set_phv_size(pool, phv_size);
    return pool;
}

struct packet_pool *packet_pool_another(struct packet_pool *pool)
{
    struct packet_pool *other = packet_pool_create((uint32_t)pool->phv_size);
    if (other)
        other->first = pool->first;
    return other;
}

/* Retire unused packets, because they are too small. */
static void widen(struct packet_pool *pool, uint32_t phv_size)
{
    pool->first->packets -= pool->fresh;
    pool->fresh = 0;
    for (struct packet *packet = pool->free; packet; packet = packet->next) {
        UNPOISON(&packet->next, sizeof packet->next);
        pool->first->packets--;
    }
    pool->free = NULL;
    set_phv_size(pool, phv_size);
}

void packet_pool_widen(struct packet_pool *pool, uint32_t phv_size)
{
    if (phv_size <= pool->phv_size)
        return;
    /* If there are packets, double the size, so that packets are rarely retired. */
    if (pool->newest && phv_size < 2 * pool->phv_size)
        phv_size = (uint32_t)(2 * pool->phv_size);
    widen(pool, phv_size);
}

void packet_pool_match(struct packet_pool *pool, const struct packet_pool *first)
{
    if (pool->phv_size < first->phv_size)
        widen(pool, (uint32_t)first->phv_size);
}

void packet_pool_destroy(struct packet_pool *pool)
{
    if (!pool)
        return;
    for (struct slab *slab = pool->newest, *next; slab; slab = next) {
        next = slab->next;
        UNPOISON(slab->slots, slab->size);
        free(slab);
    }
    free(pool);
}

void packet_pool_tell(struct packet_pool *pool, bool *is_short)
{
    pool->is_short = is_short;
}

void packet_pool_set_limit(struct packet_pool *pool, uint64_t packets)
{
    pool->first->max_packets = (packets + SLAB_PACKETS - 1) / SLAB_PACKETS * SLAB_PACKETS;
}

/* Reserve the packets of another slab. Returns false if they would exceed the limit. */
static bool reserve_slab(struct packet_pool *first)
{
    if (atomic_fetch_add(&first->packets, SLAB_PACKETS) + SLAB_PACKETS <= first->max_packets)
        return true;
    atomic_fetch_sub(&first->packets, SLAB_PACKETS);
    return false;
}

/* Return the next slot that was never used, or NULL. Slots are not linked beforehand, because this
 * would touch every page of the slab. */
static struct packet *fresh_packet(struct packet_pool *pool)
{
    if (!pool->fresh) {
        size_t size = pool->slot_size * SLAB_PACKETS;
        if (!reserve_slab(pool->first))
            return NULL;
        struct slab *slab = malloc(sizeof *slab + size);
        if (!slab)
            return NULL;
        POISON(slab->slots, size);
        slab->next = pool->newest;
        slab->size = size;
        pool->newest = slab;
        pool->fresh = SLAB_PACKETS;
    }
    uint8_t *slot = pool->newest->slots + --pool->fresh * pool->slot_size;
    return (struct packet *)(slot + pool->phv_room + GUARD);
}

struct packet *packet_take(struct packet_pool *pool)
{
    struct packet *packet = pool->free;
    if (packet) {
        UNPOISON(&packet->next, sizeof packet->next);
        pool->free = packet->next;
    } else if (!(packet = fresh_packet(pool))) {
        if (pool->is_short)
            *pool->is_short = true;
        return NULL;
    }
    uint8_t *slot = (uint8_t *)packet - GUARD - pool->phv_room;
    UNPOISON(slot, pool->phv_size);
    UNPOISON(packet, offsetof(struct packet, buffer) + PACKET_ROOM + PACKET_MAX_FRAME);
    packet->next = NULL;
    packet->data = packet->buffer + PACKET_ROOM;
    packet->length = 0;
    packet->source = packet->hops = 0;
    packet->phv_size = (uint32_t)pool->phv_size;
    packet->phv = slot;
    packet->time_ns = 0;
    return packet;
}

struct packet *packet_lend(struct packet_pool *pool)
{
    return pool->free ? packet_take(pool) : NULL;
}

void packet_give(struct packet_pool *pool, struct packet *packet)
{
    if (packet->phv_size < pool->phv_size) {
        pool->first->packets--;
        POISON(packet, sizeof *packet + PACKET_ROOM + PACKET_MAX_FRAME);
        return;
    }
    /* AddressSanitizer reports this access if the packet was already returned. */
    packet->next = pool->free;
    pool->free = packet;
    POISON((uint8_t *)packet - GUARD - pool->phv_room, pool->slot_size);
}

struct packet *packet_exchange(struct packet_pool *pool, struct packet *packet)
{
    struct packet *other = packet_take(pool);
    if (!other)
        return NULL;
    other->data = other->buffer + (packet->data - packet->buffer);
    memcpy(other->data, packet->data, packet->length);
    other->length = packet->length;
    other->source = packet->source;
    other->hops = packet->hops;
    other->time_ns = packet->time_ns;
    packet_give(pool, packet);
    return other;
}
