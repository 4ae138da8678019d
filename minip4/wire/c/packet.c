/* The packet pool: packets come from slabs, and those given back are used first, still warm. */
#include "packet.h"

#include <stddef.h>
#include <stdlib.h>

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
    GUARD = 64,          /* between the parts of a slot; poisoned where AddressSanitizer watches */
    SLAB_PACKETS = 64,   /* some 700 KB of addresses, of which only the touched pages cost memory */
    MAX_SLABS = 1024     /* 65,536 packets: half a second of link at 130,000 packets a second */
};

/* Packets that are allocated together. */
struct slab {
    struct slab *next;
    _Alignas(ALIGNMENT) uint8_t slots[];
};

/* A slot is phv, guard, struct packet with its buffer, guard. The phv comes first so that phv,
 * packet and the start of a short frame lie on one or two pages. */
struct packet_pool {
    struct packet *free;
    size_t phv_size;  /* as asked for */
    size_t phv_room;  /* rounded up */
    size_t slot_size;
    uint64_t slabs, max_slabs;
    bool *is_short;   /* NULL: nobody wants to know */
    unsigned fresh;   /* slots of the newest slab that were never handed out */
    struct slab *newest;
};

static size_t round_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

struct packet_pool *packet_pool_create(uint32_t phv_size)
{
    struct packet_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->max_slabs = MAX_SLABS;
    pool->phv_size = phv_size;
    pool->phv_room = round_up(phv_size);
    pool->slot_size = pool->phv_room + GUARD +
                      round_up(sizeof(struct packet) + PACKET_ROOM + PACKET_MAX_FRAME) + GUARD;
    return pool;
}

void packet_pool_destroy(struct packet_pool *pool)
{
    if (!pool)
        return;
    for (struct slab *slab = pool->newest, *next; slab; slab = next) {
        next = slab->next;
        UNPOISON(slab->slots, pool->slot_size * SLAB_PACKETS);
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
    pool->max_slabs = (packets + SLAB_PACKETS - 1) / SLAB_PACKETS;
}

uint32_t packet_pool_phv_size(const struct packet_pool *pool)
{
    return (uint32_t)pool->phv_size;
}

/* The next slot that was never used, or NULL. Slots are not linked up beforehand: that would touch,
 * and so allocate, every page of the slab. */
static struct packet *fresh_packet(struct packet_pool *pool)
{
    if (!pool->fresh) {
        if (pool->slabs >= pool->max_slabs)
            return NULL;
        struct slab *slab = malloc(sizeof *slab + pool->slot_size * SLAB_PACKETS);
        if (!slab)
            return NULL;
        POISON(slab->slots, pool->slot_size * SLAB_PACKETS);
        slab->next = pool->newest;
        pool->newest = slab;
        pool->slabs++;
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
    packet->phv = slot;
    packet->time_ns = 0;
    return packet;
}

void packet_give(struct packet_pool *pool, struct packet *packet)
{
    packet->next = pool->free; /* a packet given back twice is poisoned here */
    pool->free = packet;
    POISON((uint8_t *)packet - GUARD - pool->phv_room, pool->slot_size);
}
