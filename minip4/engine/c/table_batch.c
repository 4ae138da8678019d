/* Batches in a table. The index or, in ternary tables, the set of used slots defines which entries
 * exist. A batch changes a copy of the index or set, and the copy replaces the original atomically.
 * If a batch modifies an entry, the new words must finally be in its slot. Before the atomic step,
 * the batch marks all modified entries. From the atomic step on, packets read the new words of
 * marked entries from another array. Afterwards, the words are copied to the slots. */
#include <stdlib.h>

#include "memory.h"
#include "table.h"

static size_t change_words(const struct table *t)
{
    return 1 + t->spec->data_words;
}

static size_t changes_size(const struct table *t, uint32_t room)
{
    return room * change_words(t) * sizeof(uint64_t);
}

const uint64_t *table_changed(const struct table *t, const uint64_t *slot)
{
    return t->changes ? t->changes + (size_t)(slot - t->slots) / t->stride * change_words(t) : slot;
}

static void give_staged(struct table *t)
{
    struct staged *staged = t->staged;
    memory_give(staged->index, table_index_size(t));
    free(staged->in_use);
    memory_give_sparse(staged->changes, changes_size(t, staged->changes_room));
    free(staged->journal);
    free(staged);
    t->staged = NULL;
}

static bool begin(struct table *t)
{
    struct staged *staged = t->staged = calloc(1, sizeof *staged);
    bool is_ternary = t->spec->kind == TABLE_TERNARY;
    if (!staged)
        return false;
    staged->used = t->used;
    staged->sequence = t->sequence;
    staged->index = memory_take(table_index_size(t));
    staged->in_use = is_ternary ? calloc(1, ternary_set_size(t) + 1) : NULL;
    if (!staged->index || (is_ternary && !staged->in_use)) {
        give_staged(t);
        return false;
    }
    memcpy(staged->index, t->index, table_index_size(t));
    if (t->in_use)
        memcpy(staged->in_use, t->in_use, ternary_set_size(t));
    return true;
}

bool table_stage(struct table *t)
{
    if (!t->staged && !begin(t))
        return false;
    struct staged *staged = t->staged;
    if (staged->count < staged->room)
        return true;
    uint32_t room = 2 * staged->room + 16;
    struct journal_entry *journal = realloc(staged->journal, room * sizeof *journal);
    if (!journal)
        return false;
    staged->journal = journal;
    staged->room = room;
    return true;
}

void table_journal(struct table *t, uint32_t number, int what)
{
    t->staged->journal[t->staged->count++] = (struct journal_entry){number, what};
}

static bool make_changes_room(struct table *t)
{
    struct staged *staged = t->staged;
    if (staged->changes_room >= t->capacity)
        return true;
    uint64_t *changes = memory_take_sparse(changes_size(t, t->capacity));
    if (!changes)
        return false;
    if (staged->changes)
        memcpy(changes, staged->changes, changes_size(t, staged->changes_room));
    memory_give_sparse(staged->changes, changes_size(t, staged->changes_room));
    staged->changes = changes;
    staged->changes_room = t->capacity;
    return true;
}

bool table_stage_change(struct table *t, uint32_t number, const uint64_t *head_and_data)
{
    uint64_t *slot = t->slots + number * (size_t)t->stride;
    if (t->info[number].sequence >= t->staged->sequence) {
        table_set_words(t, slot, head_and_data); /* packets do not see it yet */
        return true;
    }
    if (!make_changes_room(t))
        return false;
    memcpy(t->staged->changes + number * change_words(t), head_and_data,
           change_words(t) * sizeof *slot);
    table_journal(t, number, ENTRY_CHANGED);
    return true;
}

/* Mark or change an entry, in one of the two steps around the atomic step of the batch. */
static void mark(struct table *t, uint64_t *slot, const uint64_t *change)
{
    (void)t, (void)change;
    slot[0] |= ENTRY_CHANGING;
}

static void settle(struct table *t, uint64_t *slot, const uint64_t *change)
{
    if (slot[0] & ENTRY_CHANGING)
        table_set_words(t, slot, change);
}

/* Call a function for all changed entries, one slice of the journal at a time. */
static void each_change(struct table *t,
                        void (*act)(struct table *t, uint64_t *slot, const uint64_t *change))
{
    const struct staged *staged = t->staged;
    size_t words = change_words(t);
    for (uint32_t at = 0; staged->changes && at < staged->count;) {
        uint32_t start = at, done = 0;
        lock_take(t->lock, HOLD_COMMIT);
        for (; at < staged->count && at - start < SLICE_WORDS / 2 && done * words < SLICE_LINES;
             at++) {
            uint32_t number = staged->journal[at].number;
            if (staged->journal[at].what != ENTRY_CHANGED)
                continue;
            act(t, t->slots + number * (size_t)t->stride, staged->changes + number * words);
            done++;
        }
        lock_give(t->lock, at - start + done * words);
    }
}

void table_before_commit(struct table *t)
{
    if (t->staged)
        each_change(t, mark);
}

uint32_t table_commit(struct table *t)
{
    struct staged *staged = t->staged;
    if (!staged)
        return 0;
    uint64_t *index = t->index, *in_use = t->in_use;
    t->index = staged->index;
    t->in_use = staged->in_use;
    t->changes = staged->changes;
    staged->index = index;
    staged->in_use = in_use;
    return 3;
}

void table_after_commit(struct table *t)
{
    struct staged *staged = t->staged;
    if (!staged)
        return;
    each_change(t, settle);
    lock_take(t->lock, HOLD_COMMIT);
    t->changes = NULL;
    lock_give(t->lock, 1);
    for (uint32_t i = 0; i < staged->count; i++) {
        uint32_t number = staged->journal[i].number;
        if (staged->journal[i].what != ENTRY_DELETED)
            continue;
        table_release(t, number);
        if (t->spec->kind == TABLE_LPM)
            lpm_remove(t, t->slots + number * (size_t)t->stride);
    }
    give_staged(t);
}

void table_abort(struct table *t)
{
    struct staged *staged = t->staged;
    if (!staged)
        return;
    for (uint32_t i = staged->count; i--;) {
        uint32_t number = staged->journal[i].number;
        if (staged->journal[i].what != ENTRY_ADDED)
            continue;
        table_release(t, number);
        if (t->spec->kind == TABLE_LPM)
            lpm_remove(t, t->slots + number * (size_t)t->stride);
    }
    t->used = staged->used;
    give_staged(t);
}
