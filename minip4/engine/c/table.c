/* Match tables: slots, the hash index over them, and what the control plane does with entries. */
#include "table.h"

#include <stdlib.h>

#include "memory.h"
#include "program.h"

enum { FIRST_CAPACITY = 4, CELLS = 2 /* of the index, for each slot */ };

static const uint64_t *slot_key(const struct table *t, const uint64_t *slot)
{
    return slot + 1 + t->spec->data_words;
}

/* The hash under which an entry stands in the index. Entries of ternary tables are told apart by
 * mask and priority too. */
static uint64_t entry_hash(const struct table *t, const uint64_t *key, const uint64_t *mask,
                           uint32_t prefix, int32_t priority)
{
    unsigned words = t->spec->key_words;
    if (t->spec->kind != TABLE_TERNARY)
        return key_hash(key, words, prefix);
    return key_hash(mask, words, key_hash(key, words, (uint32_t)priority));
}

static uint64_t slot_hash(const struct table *t, uint32_t number)
{
    const uint64_t *slot = t->slots + number * (size_t)t->stride, *key = slot_key(t, slot);
    return entry_hash(t, key, key + t->spec->key_words, slot_prefix(slot), t->info[number].priority);
}

static void index_put(struct table *t, uint32_t number)
{
    uint64_t hash = slot_hash(t, number);
    uint32_t i = (uint32_t)hash & t->index_mask;
    while (t->index[i])
        i = (i + 1) & t->index_mask;
    t->index[i] = (hash >> 32 << 32) | (number + 1);
}

/* Takes a slot out of the index, and moves back what its cell had displaced. */
static void index_take(struct table *t, uint32_t number)
{
    uint32_t mask = t->index_mask, hole = (uint32_t)slot_hash(t, number) & mask;
    while ((uint32_t)t->index[hole] != number + 1)
        hole = (hole + 1) & mask;
    for (uint32_t i = (hole + 1) & mask; t->index[i]; i = (i + 1) & mask) {
        uint32_t home = (uint32_t)slot_hash(t, (uint32_t)t->index[i] - 1) & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        t->index[hole] = t->index[i];
        hole = i;
    }
    t->index[hole] = 0;
}

static size_t index_size(uint32_t capacity)
{
    return (size_t)capacity * CELLS * sizeof(uint64_t);
}

static bool grow(struct table *t)
{
    uint32_t capacity = t->capacity ? 2 * t->capacity : FIRST_CAPACITY;
    size_t slot_size = t->stride * sizeof *t->slots;
    uint64_t *slots = memory_resize(t->slots, t->capacity * slot_size, capacity * slot_size);
    if (slots)
        t->slots = slots;
    struct slot_info *info = realloc(t->info, capacity * sizeof *info);
    if (info)
        t->info = info;
    uint32_t *free_slots = realloc(t->free_slots, capacity * sizeof *free_slots);
    if (free_slots)
        t->free_slots = free_slots;
    struct meter *meters = NULL;
    if (t->spec->has_meter && (meters = realloc(t->meters, capacity * sizeof *meters)))
        t->meters = meters;
    uint64_t *index = slots ? memory_take(index_size(capacity)) : NULL;
    if (!slots || !info || !free_slots || !index || (t->spec->has_meter && !meters)) {
        memory_give(index, index_size(capacity));
        if (slots) /* as large as the capacity says */
            t->slots = memory_resize(slots, capacity * slot_size, t->capacity * slot_size);
        return false;
    }
    memset(info + t->capacity, 0, (capacity - t->capacity) * sizeof *info);
    memory_give(t->index, index_size(t->capacity));
    t->index = index;
    t->index_mask = capacity * CELLS - 1;
    t->capacity = capacity;
    for (uint32_t i = 0; i < t->fresh; i++)
        if (t->info[i].generation & 1)
            index_put(t, i);
    return true;
}

bool table_create(struct table *t, const struct table_spec *spec)
{
    t->spec = spec;
    t->stride = stats_offset(spec) + (spec->has_counters ? 2 : 0) + (spec->has_timeout ? 1 : 0);
    t->default_slot = memory_take(t->stride * sizeof *t->default_slot);
    if (!t->default_slot || !grow(t)) {
        table_destroy(t);
        return false;
    }
    table_reset_default(t);
    return true;
}

void table_destroy(struct table *t)
{
    if (!t->spec)
        return;
    lpm_destroy(t);
    ternary_destroy(t);
    memory_give(t->slots, (size_t)t->capacity * t->stride * sizeof *t->slots);
    free(t->info);
    free(t->free_slots);
    free(t->meters);
    memory_give(t->index, index_size(t->capacity));
    memory_give(t->default_slot, t->stride * sizeof *t->default_slot);
    *t = (struct table){0};
}

int64_t table_find(struct table *t, const uint64_t *key, const uint64_t *mask, uint32_t prefix,
                   int32_t priority)
{
    unsigned words = t->spec->key_words;
    uint64_t hash = entry_hash(t, key, mask, prefix, priority);
    for (uint32_t i = (uint32_t)hash & t->index_mask; t->index[i]; i = (i + 1) & t->index_mask) {
        uint32_t number = (uint32_t)t->index[i] - 1;
        const uint64_t *slot = t->slots + number * (size_t)t->stride, *own = slot_key(t, slot);
        if (t->index[i] >> 32 != hash >> 32 || !same_words(own, key, words))
            continue;
        bool same = t->spec->kind == TABLE_TERNARY
                        ? t->info[number].priority == priority &&
                              same_words(own + words, mask, words)
                        : slot_prefix(slot) == prefix;
        if (same)
            return (int64_t)t->info[number].generation << 32 | number;
    }
    return TABLE_NOT_FOUND;
}

/* Odd: in use. Handles are positive numbers of 63 bits, so generations come round after 31. */
static void next_generation(struct slot_info *info)
{
    info->generation = (info->generation + 1) & INT32_MAX;
}

static void set_head_and_data(const struct table *t, uint64_t *slot, const uint64_t *head_and_data)
{
    slot[0] = (slot[0] >> 48 << 48) | (head_and_data[0] & UINT64_C(0xffffffffffff));
    memcpy(slot + 1, head_and_data + 1, t->spec->data_words * sizeof *slot);
}

int64_t table_add(struct table *t, const uint64_t *key, const uint64_t *mask, uint32_t prefix,
                  int32_t priority, const uint64_t *head_and_data, uint64_t now_ns)
{
    const struct table_spec *spec = t->spec;
    if (table_find(t, key, mask, prefix, priority) >= 0)
        return TABLE_EXISTS;
    if (t->used >= spec->max_size)
        return TABLE_FULL;
    if (!t->free_count && t->fresh == t->capacity && !grow(t))
        return TABLE_NO_MEMORY;
    uint32_t number = t->free_count ? t->free_slots[--t->free_count] : t->fresh++;
    uint64_t *slot = t->slots + number * (size_t)t->stride;
    memset(slot, 0, t->stride * sizeof *slot);
    slot[0] = (uint64_t)prefix << 48;
    set_head_and_data(t, slot, head_and_data);
    memcpy(slot + 1 + spec->data_words, key, spec->key_words * sizeof *slot);
    if (spec->kind == TABLE_TERNARY)
        memcpy(slot + 1 + spec->data_words + spec->key_words, mask, spec->key_words * sizeof *slot);
    if (spec->has_timeout)
        slot[t->stride - 1] = now_ns;
    if (t->meters)
        memset(&t->meters[number], 0, sizeof t->meters[number]);
    next_generation(&t->info[number]);
    t->info[number].priority = priority;
    t->info[number].sequence = t->sequence++;
    t->used++;
    index_put(t, number);
    bool done = spec->kind == TABLE_LPM       ? lpm_insert(t, slot)
                : spec->kind == TABLE_TERNARY ? ternary_insert(t, number)
                                              : true;
    int64_t handle = (int64_t)t->info[number].generation << 32 | number;
    if (done)
        return handle;
    table_delete(t, handle);
    return TABLE_NO_MEMORY;
}

uint64_t *table_slot(const struct table *t, int64_t handle)
{
    uint32_t number = (uint32_t)handle;
    if (handle < 0 || number >= t->fresh || !(t->info[number].generation & 1) ||
        t->info[number].generation != (uint32_t)(handle >> 32))
        return NULL;
    return t->slots + number * (size_t)t->stride;
}

int table_modify(struct table *t, int64_t handle, const uint64_t *head_and_data)
{
    uint64_t *slot = table_slot(t, handle);
    if (!slot)
        return TABLE_NOT_FOUND;
    set_head_and_data(t, slot, head_and_data);
    return 0;
}

int table_delete(struct table *t, int64_t handle)
{
    uint64_t *slot = table_slot(t, handle);
    if (!slot)
        return TABLE_NOT_FOUND;
    uint32_t number = (uint32_t)handle;
    index_take(t, number);
    next_generation(&t->info[number]);
    t->used--;
    t->free_slots[t->free_count++] = number;
    if (t->spec->kind == TABLE_LPM)
        lpm_remove(t, slot);
    else if (t->spec->kind == TABLE_TERNARY)
        ternary_remove(t, number);
    return 0;
}

int64_t table_next(const struct table *t, uint32_t from)
{
    for (uint32_t i = from; i < t->fresh; i++)
        if (t->info[i].generation & 1)
            return (int64_t)t->info[i].generation << 32 | i;
    return TABLE_NOT_FOUND;
}

void table_set_default(struct table *t, const uint64_t *head_and_data)
{
    set_head_and_data(t, t->default_slot, head_and_data);
}

void table_reset_default(struct table *t)
{
    t->default_slot[0] = t->spec->default_head;
    memcpy(t->default_slot + 1, t->spec->default_data, t->spec->data_words * sizeof(uint64_t));
}
