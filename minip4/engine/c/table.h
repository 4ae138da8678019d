/* Match tables. An entry is a slot of words: [0] action, kind and prefix length, then the action's data, the
 * key, for ternary tables the mask, then counters and the time of the last hit. Lookups are inline, so that
 * constants of the generated code (words of key and data) unroll them. */
#ifndef MINIP4_TABLE_H
#define MINIP4_TABLE_H

#include "bits.h"
#include "lock.h"

enum table_kind { TABLE_EXACT, TABLE_LPM, TABLE_TERNARY };

/* The kind of an entry's target, in the upper half of slot word 0. */
enum entry_kind { ENTRY_ACTION, ENTRY_MEMBER, ENTRY_GROUP };

enum { NO_ACTION = UINT32_MAX };

/* In slot word 0: a batch changes the entry; table_changed() returns whether the change is in force. */
#define ENTRY_CHANGING (UINT64_C(1) << 47)

/* A range field's place in the key: its low end is kept in the key, its high end in the mask. */
struct range_field {
    uint8_t word, shift, width;
};

struct table_spec {
    enum table_kind kind;
    uint32_t key_words, data_words, max_size;
    bool has_counters, has_timeout, has_meter;
    uint32_t lpm_word, lpm_shift, lpm_width; /* the lpm field; its lowest word when it has several */
    uint32_t ranges;
    const struct range_field *range;
    uint64_t default_head;                   /* slot word 0 of the default entry */
    const uint64_t *default_data;
};

struct slot_info {
    uint32_t generation; /* odd: in use */
    int32_t priority;
    uint64_t sequence;   /* order of insertion: the older of equal priorities wins */
};

/* A prefix length that entries have; the mask, of key_words words, follows. */
struct length {
    uint32_t prefix, entries;
    uint64_t mask[];
};

/* When an entry counts as idle; the control plane's own. */
struct ageing {
    uint64_t timeout_ns; /* 0: never */
    uint64_t reported;   /* reported timeouts since the last hit */
};

struct table {
    /* What lookups need comes first, in one cache line. */
    uint64_t *slots, *default_slot;
    /* Open addressing: hash's upper half << 32 | slot + 1. */
    uint64_t *index;
    uint32_t index_mask, stride;
    /* lpm: distinct prefix lengths, longest first, and for each value of the field's first bits the
     * set of lengths that may match there. */
    uint64_t *lengths, *filter;
    uint32_t length_count;
    uint16_t filter_bits, skip_bits;
    uint32_t filter_entries, stale, length_room;
    const struct table_spec *spec;
    struct lock *lock;
    struct slot_info *info;
    struct meter *meters; /* of the slots, for a direct meter */
    uint32_t capacity, used, fresh, free_count;
    uint32_t *free_slots;
    size_t slots_room, meters_room; /* for so many slots */
    struct ageing *ageing; /* of the slots, for a table with timeouts */
    uint32_t watched;      /* entries that have one */
    uint64_t sequence;
    /* ternary: for each key byte that some entry cares for and each of its values, the set of slots
     * that it does not rule out. */
    uint64_t *care, *rows, *in_use;
    struct active_byte {
        uint8_t word, shift;
    } *active;
    uint32_t active_count, blocks; /* blocks of 256 slots */
    const uint64_t *changes; /* a batch's new head and data, by slot, once it is in force; or NULL */
    struct staged *staged;   /* what a batch under way makes of the table; NULL: nothing */
} __attribute__((aligned(64)));

ALWAYS_INLINE uint64_t key_hash(const uint64_t *key, unsigned words, uint64_t seed)
{
    uint64_t hash = seed ^ UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < words; i++) {
        u128 product = (u128)(key[i] ^ UINT64_C(0xd6e8feb86659fd93)) * (hash | 1);
        hash = (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    u128 product = (u128)hash * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

ALWAYS_INLINE bool same_words(const uint64_t *a, const uint64_t *b, unsigned words)
{
    uint64_t difference = 0;
    for (unsigned i = 0; i < words; i++)
        difference |= a[i] ^ b[i];
    return !difference;
}

ALWAYS_INLINE uint32_t slot_prefix(const uint64_t *slot)
{
    return (uint32_t)(slot[0] >> 48);
}

/* The slot that holds this key (of this prefix length), or NULL. */
ALWAYS_INLINE uint64_t *index_find(const struct table *t, const uint64_t *key, unsigned words,
                                   unsigned data_words, uint32_t prefix)
{
    uint64_t hash = key_hash(key, words, prefix);
    for (uint32_t i = (uint32_t)hash & t->index_mask;; i = (i + 1) & t->index_mask) {
        uint64_t cell = t->index[i];
        if (!cell)
            return NULL;
        if (cell >> 32 != hash >> 32)
            continue;
        uint64_t *slot = t->slots + ((uint32_t)cell - 1) * (size_t)t->stride;
        if (same_words(slot + 1 + data_words, key, words) && slot_prefix(slot) == prefix)
            return slot;
    }
}

ALWAYS_INLINE uint64_t *table_find_exact(const struct table *t, const uint64_t *key, unsigned words,
                                         unsigned data_words)
{
    return index_find(t, key, words, data_words, 0);
}

/* So few prefix lengths are tried without asking the filter. */
enum { LENGTHS_UNFILTERED = 2 };

ALWAYS_INLINE struct length *table_length(const struct table *t, uint32_t number, unsigned words)
{
    return (struct length *)(t->lengths + number * (1 + words));
}

/* `top`: the lpm field's first 64 bits, left-aligned. */
ALWAYS_INLINE uint64_t *table_find_lpm(const struct table *t, const uint64_t *key, unsigned words,
                                       unsigned data_words, uint64_t top)
{
    uint64_t candidates = t->length_count <= LENGTHS_UNFILTERED
                              ? (UINT64_C(1) << t->length_count) - 1
                              : t->filter[top << t->skip_bits >> (64 - t->filter_bits)];
    while (candidates) {
        uint32_t i = (uint32_t)__builtin_ctzll(candidates);
        uint32_t end = i == 63 ? t->length_count : i + 1; /* the last bit means all that follow */
        for (; i < end; i++) {
            const struct length *length = table_length(t, i, words);
            uint64_t masked[words];
            for (unsigned w = 0; w < words; w++)
                masked[w] = key[w] & length->mask[w];
            uint64_t *slot = index_find(t, masked, words, data_words, length->prefix);
            if (slot)
                return slot;
        }
        candidates &= candidates - 1;
    }
    return NULL;
}

uint64_t *table_find_ternary(const struct table *t, const uint64_t *key);

__attribute__((cold)) const uint64_t *table_changed(const struct table *t, const uint64_t *slot);

/* The head and data of an entry that was found. */
ALWAYS_INLINE const uint64_t *table_entry(const struct table *t, const uint64_t *slot)
{
    return __builtin_expect(!(slot[0] & ENTRY_CHANGING), 1) ? slot : table_changed(t, slot);
}

ALWAYS_INLINE uint32_t stats_offset(const struct table_spec *spec)
{
    return 1 + spec->data_words + spec->key_words * (spec->kind == TABLE_TERNARY ? 2 : 1);
}

/* Brings a small table into the cache; of a larger one, what each lookup needs. */
ALWAYS_INLINE void table_prefetch(const struct table *t)
{
    const char *index = (const char *)t->index, *slots = (const char *)t->slots;
    if (!t->used)
        return;
    if (t->lengths)
        __builtin_prefetch(t->lengths);
    if (t->index_mask >= 16)
        return;
    for (size_t at = 0; at < (t->index_mask + 1) * sizeof *t->index; at += 64)
        __builtin_prefetch(index + at);
    for (size_t at = 0; at < t->used * t->stride * sizeof *t->slots; at += 64)
        __builtin_prefetch(slots + at);
}

/* --- control plane --------------------------------------------------------------------------- */

/* One thread at a time, which does not hold the lock: what packets read is changed under the lock, in
 * holds that do not grow with the table; what is not in sight of them (free slots, a larger index that
 * is being built) is written without it. While lock->in_batch, what is done to entries stays out of
 * their sight until table_commit(). */

/* Errors of the control plane, returned as negative numbers. */
enum table_error {
    TABLE_NOT_FOUND = -1,
    TABLE_EXISTS = -2,
    TABLE_FULL = -3,
    TABLE_NO_MEMORY = -4,
    TABLE_INVALID = -5
};

/* In place, of zeros; false: no memory, and it is empty as before. */
bool table_create(struct table *t, const struct table_spec *spec, struct lock *lock);
void table_destroy(struct table *t);

/* A handle: generation << 32 | slot. Of an lpm entry `prefix` counts; of a ternary one `mask` (or
 * for range fields the high end) and `priority`, of which the greater wins. */
int64_t table_add(struct table *t, const uint64_t *key, const uint64_t *mask, uint32_t prefix,
                  int32_t priority, const uint64_t *head_and_data, uint64_t now_ns);
int64_t table_find(const struct table *t, const uint64_t *key, const uint64_t *mask,
                   uint32_t prefix, int32_t priority);
int table_modify(struct table *t, int64_t handle, const uint64_t *head_and_data);
int table_delete(struct table *t, int64_t handle);
/* The slot of a handle, or NULL. */
uint64_t *table_slot(const struct table *t, int64_t handle);

/* table_read.c: an entry as it is copied out: handle, priority, then its slot. */
enum { COPY_HEAD = 2 };
/* Copies the entries from slot *from on, as many as there is room for; *from is where to go on. Returns
 * how many they were. */
uint32_t table_copy(struct table *t, uint32_t *from, uint32_t room, uint64_t *out);
bool table_copy_one(struct table *t, int64_t handle, uint64_t *out);
int table_set_timeout(struct table *t, int64_t handle, uint64_t timeout_ns);
/* Likewise the handles of entries whose timeout expired again since the last report, each with the number
 * of timeouts since the last hit. */
uint32_t table_age(struct table *t, uint32_t *from, uint64_t now_ns, uint32_t room, uint64_t *out);

/* table_batch.c. Nothing here fails: what a batch needs, it has taken when its changes were made. */
struct staged {
    uint64_t *index, *in_use; /* as they will be */
    uint64_t *changes;        /* new head and data, by slot */
    uint32_t changes_room;
    struct journal_entry {
        uint32_t number;
        enum { ENTRY_ADDED, ENTRY_DELETED, ENTRY_CHANGED } what;
    } *journal;
    uint32_t count, room;
    uint32_t used;            /* before the batch */
    uint64_t sequence;        /* entries from here on are the batch's own */
};
/* Before the first change of a table in a batch, and before each further one; false: no memory. */
bool table_stage(struct table *t);
void table_journal(struct table *t, uint32_t number, int what);
bool table_stage_change(struct table *t, uint32_t number, const uint64_t *head_and_data);
/* In this order; the second is called with the lock held, and returns the words that it touched. */
void table_before_commit(struct table *t);
uint32_t table_commit(struct table *t);
void table_after_commit(struct table *t);
void table_abort(struct table *t);

/* table.c, for the files of the kinds */
void table_set_words(const struct table *t, uint64_t *slot, const uint64_t *head_and_data);
void table_release(struct table *t, uint32_t number);
size_t table_index_size(const struct table *t);
ALWAYS_INLINE bool is_present(const struct table *t, uint32_t number)
{
    return t->info[number].generation & 1;
}

/* Before the slot is seen; false: no memory, and nothing is changed. */
bool lpm_insert(struct table *t, const uint64_t *slot);
/* After it is seen no more. */
void lpm_remove(struct table *t, const uint64_t *slot);
void lpm_destroy(struct table *t);
bool ternary_insert(struct table *t, uint32_t number);
/* From now on, or as soon as the batch is in force, the slot takes part, or not. */
void ternary_show(struct table *t, uint32_t number, bool is_shown);
size_t ternary_set_size(const struct table *t);
void ternary_destroy(struct table *t);

#endif
