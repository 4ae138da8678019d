/* Match tables: slots, the hash index of slots, and control-plane operations on entries. */
#include "table.h"

#include <stdlib.h>

#include "memory.h"
#include "program.h"

enum { FIRST_CAPACITY = 4, CELLS = 2 /* number of index cells per slot */ };

static const uint64_t *slot_key(const struct table *t, const uint64_t *slot)
{
    return slot + 1 + t->spec->data_words;
}

/* Return the hash of an entry in the index. In ternary tables, the hash includes mask and
 * priority. */
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

static void index_put(struct table *t, uint64_t *index, uint32_t mask, uint32_t number)
{
    uint64_t hash = slot_hash(t, number);
    uint32_t i = (uint32_t)hash & mask;
    while (index[i])
        i = (i + 1) & mask;
    index[i] = (hash >> 32 << 32) | (number + 1);
}

/* Remove a slot from the index and move displaced cells back. Returns false if the slot is not in
 * the index. */
static bool index_take(struct table *t, uint64_t *index, uint32_t number)
{
    uint32_t mask = t->index_mask, hole = (uint32_t)slot_hash(t, number) & mask;
    for (; (uint32_t)index[hole] != number + 1; hole = (hole + 1) & mask)
        if (!index[hole])
            return false;
    for (uint32_t i = (hole + 1) & mask; index[i]; i = (i + 1) & mask) {
        uint32_t home = (uint32_t)slot_hash(t, (uint32_t)index[i] - 1) & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        index[hole] = index[i];
        hole = i;
    }
    index[hole] = 0;
    return true;
}

static size_t index_size(uint32_t capacity)
{
    return (size_t)capacity * CELLS * sizeof(uint64_t);
}

size_t table_index_size(const struct table *t)
{
    return index_size(t->capacity);
}

/* Return the index that the control plane uses: the index of the batch if the batch has changed the
 * table, else the index of packets. */
static uint64_t *own_index(const struct table *t)
{
    return t->staged ? t->staged->index : t->index;
}

/* --- growth ---------------------------------------------------------------------------------- */

static bool is_reserved(size_t room, size_t size)
{
    return room * size > HOLD_WORDS * sizeof(uint64_t);
}

/* Enlarge an array that packets write. Only a limited amount can be copied while packets wait. So
 * an array that exceeds this limit moves, once, to a virtual address range with room for all
 * entries and for a batch that replaces all entries. Only used pages cost memory. */
static bool make_room(struct table *t, void **array, size_t *room, size_t capacity, size_t size)
{
    if (capacity <= *room)
        return true;
    size_t most = 2 * (t->spec->max_size > capacity ? t->spec->max_size : capacity);
    size_t old_size = *room * size;
    bool is_last = is_reserved(capacity, size);
    void *old = *array, *larger = NULL;
    if (!is_reserved(*room, size))
        larger = is_last ? memory_reserve(most * size) : memory_take(capacity * size);
    if (!larger)
        return false;
    memset(larger, 0, old_size); /* page faults occur now, not while packets wait */
    lock_take(t->lock, HOLD_ENTRY);
    if (old)
        memcpy(larger, old, old_size);
    *array = larger;
    lock_give(t->lock, old_size / sizeof(uint64_t));
    memory_give(old, old_size);
    *room = is_last ? most : capacity;
    return true;
}

static void give_shared(void *array, size_t room, size_t size)
{
    if (is_reserved(room, size))
        memory_give_sparse(array, room * size);
    else
        memory_give(array, room * size);
}

/* Larger copies of the arrays that packets do not write. */
struct growth {
    struct slot_info *info;
    uint32_t *free_slots;
    struct ageing *ageing;
    uint64_t *index, *staged_index;
};

static bool allocate(const struct table *t, uint32_t capacity, struct growth *g)
{
    g->info = calloc(capacity, sizeof *g->info);
    g->free_slots = calloc(capacity, sizeof *g->free_slots);
    g->ageing = t->spec->has_timeout ? calloc(capacity, sizeof *g->ageing) : NULL;
    g->index = memory_take(index_size(capacity));
    g->staged_index = t->staged ? memory_take(index_size(capacity)) : NULL;
    return g->info && g->free_slots && g->index && (g->ageing || !t->spec->has_timeout) &&
           (g->staged_index || !t->staged);
}

/* Free the memory that was replaced or not needed. */
static void give_growth(const struct growth *g, uint32_t capacity)
{
    free(g->info);
    free(g->free_slots);
    free(g->ageing);
    memory_give(g->index, index_size(capacity));
    memory_give(g->staged_index, index_size(capacity));
}

static void fill(struct table *t, uint32_t capacity, const struct growth *g)
{
    uint32_t mask = capacity * CELLS - 1;
    if (!t->capacity)
        return;
    memcpy(g->info, t->info, t->capacity * sizeof *t->info);
    memcpy(g->free_slots, t->free_slots, t->capacity * sizeof *t->free_slots);
    if (g->ageing)
        memcpy(g->ageing, t->ageing, t->capacity * sizeof *t->ageing);
    for (uint32_t i = 0; i <= t->index_mask; i++) {
        if (t->index[i])
            index_put(t, g->index, mask, (uint32_t)t->index[i] - 1);
        if (t->staged && t->staged->index[i])
            index_put(t, g->staged_index, mask, (uint32_t)t->staged->index[i] - 1);
    }
}

static bool grow(struct table *t)
{
    uint32_t old_capacity = t->capacity, capacity = old_capacity ? 2 * old_capacity : FIRST_CAPACITY;
    struct growth g = {0};
    if (!make_room(t, (void **)&t->slots, &t->slots_room, capacity, t->stride * sizeof *t->slots) ||
        (t->spec->has_meter && !make_room(t, (void **)&t->meters, &t->meters_room, capacity,
                                          sizeof *t->meters)) ||
        !allocate(t, capacity, &g)) {
        give_growth(&g, capacity);
        return false;
    }
    fill(t, capacity, &g);
    struct growth old = {t->info, t->free_slots, t->ageing, t->index,
                         t->staged ? t->staged->index : NULL};
    lock_take(t->lock, HOLD_ENTRY);
    t->info = g.info;
    t->index = g.index;
    t->index_mask = capacity * CELLS - 1;
    lock_give(t->lock, 3);
    t->free_slots = g.free_slots;
    t->ageing = g.ageing;
    t->capacity = capacity;
    if (t->staged)
        t->staged->index = g.staged_index;
    give_growth(&old, old_capacity);
    return true;
}

/* Set the cells of direct registers to their initial values. */
static void set_cells(const struct table *t, uint64_t *slot)
{
    const struct table_spec *spec = t->spec;
    if (spec->cell_words)
        memcpy(slot_cells(spec, slot), spec->initial_cells, spec->cell_words * sizeof *slot);
}

bool table_create(struct table *t, const struct table_spec *spec, struct lock *lock)
{
    t->spec = spec;
    t->lock = lock;
    t->stride = stats_offset(spec) + (spec->has_counters ? 2 : 0) + spec->cell_words +
                (spec->has_timeout ? 1 : 0);
    t->default_slot = memory_take(t->stride * sizeof *t->default_slot);
    if (!t->default_slot || !grow(t)) {
        table_destroy(t);
        return false;
    }
    t->default_slot[0] = spec->default_head;
    memcpy(t->default_slot + 1, spec->default_data, spec->data_words * sizeof(uint64_t));
    set_cells(t, t->default_slot);
    return true;
}

void table_destroy(struct table *t)
{
    if (!t->spec)
        return;
    if (t->staged)
        table_abort(t);
    lpm_destroy(t);
    ternary_destroy(t);
    give_shared(t->slots, t->slots_room, t->stride * sizeof *t->slots);
    give_shared(t->meters, t->meters_room, sizeof *t->meters);
    free(t->info);
    free(t->free_slots);
    free(t->ageing);
    memory_give(t->index, index_size(t->capacity));
    memory_give(t->default_slot, t->stride * sizeof *t->default_slot);
    *t = (struct table){0};
}

/* --- entries --------------------------------------------------------------------------------- */

int64_t table_find(const struct table *t, const uint64_t *key, const uint64_t *mask,
                   uint32_t prefix, int32_t priority)
{
    unsigned words = t->spec->key_words;
    const uint64_t *index = own_index(t);
    uint64_t hash = entry_hash(t, key, mask, prefix, priority);
    for (uint32_t i = (uint32_t)hash & t->index_mask; index[i]; i = (i + 1) & t->index_mask) {
        uint32_t number = (uint32_t)index[i] - 1;
        const uint64_t *slot = t->slots + number * (size_t)t->stride, *own = slot_key(t, slot);
        if (index[i] >> 32 != hash >> 32 || !same_words(own, key, words))
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

/* Generations of used slots are odd. Handles are positive 63-bit numbers, so generations wrap
 * around after 31 bits. */
static void next_generation(struct slot_info *info)
{
    info->generation = (info->generation + 1) & INT32_MAX;
}

void table_set_words(const struct table *t, uint64_t *slot, const uint64_t *head_and_data)
{
    slot[0] = (slot[0] >> 48 << 48) | (head_and_data[0] & UINT64_C(0xffffffffffff));
    memcpy(slot + 1, head_and_data + 1, t->spec->data_words * sizeof *slot);
}

/* Create a slot with all data of the entry. Packets do not see it yet. */
static uint32_t make_entry(struct table *t, const uint64_t *key, const uint64_t *mask,
                           uint32_t prefix, int32_t priority, uint64_t now_ns)
{
    const struct table_spec *spec = t->spec;
    uint32_t number = t->free_count ? t->free_slots[--t->free_count] : t->fresh++;
    uint64_t *slot = t->slots + number * (size_t)t->stride;
    memset(slot, 0, t->stride * sizeof *slot);
    slot[0] = (uint64_t)prefix << 48;
    memcpy(slot + 1 + spec->data_words, key, spec->key_words * sizeof *slot);
    if (spec->kind == TABLE_TERNARY)
        memcpy(slot + 1 + spec->data_words + spec->key_words, mask, spec->key_words * sizeof *slot);
    set_cells(t, slot);
    if (spec->has_timeout) {
        slot[t->stride - 1] = now_ns;
        t->ageing[number] = (struct ageing){0};
    }
    if (t->meters)
        memset(&t->meters[number], 0, sizeof t->meters[number]);
    next_generation(&t->info[number]);
    t->info[number].priority = priority;
    t->info[number].sequence = t->sequence++;
    t->used++;
    return number;
}

/* Make an entry visible or invisible to packets. While a batch is prepared, only the batch sees the
 * change. Returns false if the entry was invisible. In ternary tables, packets do not use the
 * index. */
static bool show(struct table *t, uint32_t number, bool is_shown)
{
    bool is_ternary = t->spec->kind == TABLE_TERNARY, is_locked = !is_ternary && !t->staged;
    uint64_t *index = own_index(t);
    bool done = true;
    if (is_locked)
        lock_take(t->lock, HOLD_ENTRY);
    if (is_shown)
        index_put(t, index, t->index_mask, number);
    else
        done = index_take(t, index, number);
    if (is_locked)
        lock_give(t->lock, 1);
    if (is_ternary && done)
        ternary_show(t, number, is_shown);
    return done;
}

void table_release(struct table *t, uint32_t number)
{
    next_generation(&t->info[number]);
    if (t->ageing && t->ageing[number].timeout_ns)
        t->watched--;
    t->free_slots[t->free_count++] = number;
}

int64_t table_add(struct table *t, const uint64_t *key, const uint64_t *mask, uint32_t prefix,
                  int32_t priority, const uint64_t *head_and_data, uint64_t now_ns)
{
    if (table_find(t, key, mask, prefix, priority) >= 0)
        return TABLE_EXISTS;
    if (t->used >= t->spec->max_size)
        return TABLE_FULL;
    if ((t->lock->in_batch && !table_stage(t)) ||
        (!t->free_count && t->fresh == t->capacity && !grow(t)))
        return TABLE_NO_MEMORY;
    uint32_t number = make_entry(t, key, mask, prefix, priority, now_ns);
    uint64_t *slot = t->slots + number * (size_t)t->stride;
    table_set_words(t, slot, head_and_data);
    bool done = t->spec->kind == TABLE_LPM       ? lpm_insert(t, slot)
                : t->spec->kind == TABLE_TERNARY ? ternary_insert(t, number)
                                                 : true;
    if (!done) {
        table_release(t, number);
        t->used--;
        return TABLE_NO_MEMORY;
    }
    show(t, number, true);
    if (t->staged)
        table_journal(t, number, ENTRY_ADDED);
    return (int64_t)t->info[number].generation << 32 | number;
}

uint64_t *table_slot(const struct table *t, int64_t handle)
{
    uint32_t number = (uint32_t)handle;
    if (handle < 0 || number >= t->fresh || !is_present(t, number) ||
        t->info[number].generation != (uint32_t)(handle >> 32))
        return NULL;
    return t->slots + number * (size_t)t->stride;
}

int table_modify(struct table *t, int64_t handle, const uint64_t *head_and_data)
{
    uint64_t *slot = table_slot(t, handle);
    if (!slot)
        return TABLE_NOT_FOUND;
    if (t->lock->in_batch && !table_stage(t))
        return TABLE_NO_MEMORY;
    if (t->staged)
        return table_stage_change(t, (uint32_t)handle, head_and_data) ? 0 : TABLE_NO_MEMORY;
    lock_take(t->lock, HOLD_ENTRY);
    table_set_words(t, slot, head_and_data);
    lock_give(t->lock, 1 + t->spec->data_words);
    return 0;
}

int table_delete(struct table *t, int64_t handle)
{
    uint64_t *slot = table_slot(t, handle);
    if (!slot)
        return TABLE_NOT_FOUND;
    if (t->lock->in_batch && !table_stage(t))
        return TABLE_NO_MEMORY;
    uint32_t number = (uint32_t)handle;
    if (!show(t, number, false))
        return TABLE_NOT_FOUND;
    t->used--;
    if (t->staged) {
        table_journal(t, number, ENTRY_DELETED);
        return 0;
    }
    table_release(t, number);
    if (t->spec->kind == TABLE_LPM)
        lpm_remove(t, slot);
    return 0;
}
