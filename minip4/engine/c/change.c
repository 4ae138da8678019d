/* Changes of registers, counters, meters, profiles, sessions, value sets and default entries,
 * singly or as part of a batch. */
#include "change.h"

#include <stdlib.h>
#include <string.h>

#include "engine_internal.h"

struct change {
    struct change *next;
    struct place place;
    uint32_t size, count;
    unsigned flags;
    uint8_t bytes[]; /* the new bytes; after the change, the replaced bytes */
};

static uint64_t words_of(const struct change *c)
{
    return ((uint64_t)c->size * c->count + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

static uint8_t *place_of(const struct change *c)
{
    return *(uint8_t **)c->place.pointer + c->place.offset;
}

static void swap(uint8_t *a, uint8_t *b, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        uint8_t kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

static void apply(struct change *c)
{
    uint8_t *at = place_of(c);
    if (c->count == 1)
        swap(at, c->bytes, c->size);
    else
        for (uint32_t i = 0; i < c->count; i++)
            memcpy(at + (size_t)i * c->size, c->bytes, c->size);
}

/* Apply a change in slices, outside of the atomic step of a batch. */
static void apply_in_slices(struct engine *e, struct change *c)
{
    uint32_t left = c->count, most = SLICE_WORDS * sizeof(uint64_t) / c->size;
    do {
        c->count = left < most ? left : most;
        lock_take(&e->lock, HOLD_STATE);
        apply(c);
        lock_give(&e->lock, words_of(c));
        c->place.offset += (size_t)c->count * c->size;
        left -= c->count;
    } while (left);
}

static void give(struct change *c)
{
    void *owned = NULL;
    if (c->flags & CHANGE_OWNS)
        memcpy(&owned, c->bytes, sizeof owned);
    free(owned);
    free(c);
}

int change_put(struct engine *e, struct place place, const void *bytes, uint32_t size, uint32_t count,
               unsigned flags)
{
    struct change *c = malloc(sizeof *c + size);
    if (!c)
        return TABLE_NO_MEMORY;
    *c = (struct change){.place = place, .size = size, .count = count, .flags = flags};
    memcpy(c->bytes, bytes, size);
    if (e->lock.in_batch) {
        *(e->changes ? e->changes_end : &e->changes) = c;
        e->changes_end = &c->next;
        return 0;
    }
    apply_in_slices(e, c);
    give(c);
    return 0;
}

uint64_t change_commit(struct engine *e)
{
    uint64_t words = 0;
    for (struct change *c = e->changes; c; c = c->next)
        if (!(c->flags & CHANGE_UNSEEN)) {
            apply(c);
            words += words_of(c);
        }
    return words;
}

static void give_all(struct engine *e)
{
    for (struct change *c = e->changes, *next; c; c = next) {
        next = c->next;
        give(c);
    }
    e->changes = NULL;
}

void change_finish(struct engine *e)
{
    for (struct change *c = e->changes; c; c = c->next)
        if (c->flags & CHANGE_UNSEEN)
            apply_in_slices(e, c);
    give_all(e);
}

void change_abort(struct engine *e)
{
    give_all(e);
}
