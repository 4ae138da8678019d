/* Match tables. An entry is a slot of words. Word 0 contains the action, the kind and the prefix
 * length. The next words are the action's data, the key, the mask (in ternary tables), the
 * counters, the cells of direct registers (TNA), and the time of the last hit. Lookups are inline,
 * so that the compiler unrolls them for the constants of the generated code (words of key and
 * data). */
#ifndef MINIP4_TABLE_H
#define MINIP4_TABLE_H

#include "bits.h"
#include "lock.h"

enum table_kind { TABLE_EXACT, TABLE_LPM, TABLE_TERNARY };

/* The kind of an entry's target, in the upper half of slot word 0. */
enum entry_kind { ENTRY_ACTION, ENTRY_MEMBER, ENTRY_GROUP };

enum { NO_ACTION = UINT32_MAX };

/* Bit in slot word 0: a batch changes the entry. table_changed() returns whether the change has
 * taken effect. */
#define ENTRY_CHANGING (UINT64_C(1) << 47)

/* The location of a range field in the key. The low end of the range is in the key, and the high
 * end is in the mask. */
struct range_field {
    uint8_t word, shift, width;
};

struct table_spec {
    enum table_kind kind;
    uint32_t key_words, data_words, max_size;
    bool has_counters, has_timeout, has_meter;
    uint32_t cell_words;                     /* words of registers in each entry, and ... */
    const uint64_t *initial_cells;           /* ... their values in a new entry (TNA) */
    /* location of the lpm field; for a field of several words, of the lowest word */
    uint32_t lpm_word, lpm_shift, lpm_width;
    uint32_t ranges;
    const struct range_field *range;
    uint64_t default_head;                   /* slot word 0 of the default entry */
    const uint64_t *default_data;
};

struct slot_info {
    uint32_t generation; /* an odd number means that the slot is used */
    int32_t priority;
    /* order of insertion: if several entries have the same priority, the oldest wins */
    uint64_t sequence;
};

/* A prefix length of entries, followed by its mask of key_words words. */
struct length {
    uint32_t prefix, entries;
    uint64_t mask[];
};

/* Idle state of an entry. Only the control plane uses it. */
struct ageing {
    uint64_t timeout_ns; /* in ns; 0 means no timeout */
    uint64_t reported;   /* number of timeouts since the last hit that have been reported */
};

struct table {
    /* The data that lookups need come first, in one cache line. */
    uint64_t *slots, *default_slot;
    /* Open addressing. An element is (upper half of the hash) << 32 | (slot + 1). */
    uint64_t *index;
    uint32_t index_mask, stride;
    /* For lpm: the distinct prefix lengths, longest first. `filter` maps each value of the field's
     * first bits to the set of lengths that may match. */
    uint64_t *lengths, *filter;
    uint32_t length_count;
    uint16_t filter_bits, skip_bits;
    uint32_t filter_entries, stale, length_room;
    const struct table_spec *spec;
    struct lock *lock;
    struct slot_info *info;
    struct meter *meters; /* one per slot, for a direct meter */
    uint32_t capacity, used, fresh, free_count;
    uint32_t *free_slots;
    size_t slots_room, meters_room; /* number of slots for which there is room */
    struct ageing *ageing; /* one per slot, in a table with timeouts */
    uint32_t watched;      /* number of entries with a timeout */
    uint64_t sequence;
    /* For ternary: `care` is the set of key bytes that at least one entry compares. `rows` maps
     * each such byte and each of its values to the set of slots that may match. */
    uint64_t *care, *rows, *in_use;
    struct active_byte {
        uint8_t word, shift;
    } *active;
    uint32_t active_count, blocks; /* `blocks` are blocks of 256 slots */
    /* new head and data per slot, from a batch that has taken effect; or NULL */
    const uint64_t *changes;
    struct staged *staged;   /* changes of the table by the current batch; NULL if there are none */
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

/* Return the slot with this key (and prefix length), or NULL. */
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

/* Up to this number of prefix lengths, all lengths are tried, without the filter. */
enum { LENGTHS_UNFILTERED = 2 };

ALWAYS_INLINE struct length *table_length(const struct table *t, uint32_t number, unsigned words)
{
    return (struct length *)(t->lengths + number * (1 + words));
}

/* `top` contains the first 64 bits of the lpm field, left-aligned. */
ALWAYS_INLINE uint64_t *table_find_lpm(const struct table *t, const uint64_t *key, unsigned words,
                                       unsigned data_words, uint64_t top)
{
    uint64_t candidates = t->length_count <= LENGTHS_UNFILTERED
                              ? (UINT64_C(1) << t->length_count) - 1
                              : t->filter[top << t->skip_bits >> (64 - t->filter_bits)];
    while (candidates) {
        uint32_t i = (uint32_t)__builtin_ctzll(candidates);
        /* the last bit stands for all further lengths */
        uint32_t end = i == 63 ? t->length_count : i + 1;
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

/* Return the head and data of a found entry. */
ALWAYS_INLINE const uint64_t *table_entry(const struct table *t, const uint64_t *slot)
{
    return __builtin_expect(!(slot[0] & ENTRY_CHANGING), 1) ? slot : table_changed(t, slot);
}

ALWAYS_INLINE uint32_t stats_offset(const struct table_spec *spec)
{
    return 1 + spec->data_words + spec->key_words * (spec->kind == TABLE_TERNARY ? 2 : 1);
}

/* Prefetch a small table. For a larger table, prefetch only the data that each lookup needs. */
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

/* Return the cells of direct registers in a slot. */
ALWAYS_INLINE uint64_t *slot_cells(const struct table_spec *spec, uint64_t *slot)
{
    return slot + stats_offset(spec) + (spec->has_counters ? 2 : 0);
}

/* --- control plane --------------------------------------------------------------------------- */

/* Only one thread at a time may call these functions, without holding the lock. Data that packets
 * read are changed with the lock held; the hold time does not depend on the size of the table. Data
 * that packets do not read (free slots, a larger index under construction) are written without the
 * lock. While lock->in_batch is set, packets do not see changes of entries until table_commit(). */

/* Errors of control-plane functions, returned as negative numbers. */
enum table_error {
    TABLE_NOT_FOUND = -1,
    TABLE_EXISTS = -2,
    TABLE_FULL = -3,
    TABLE_NO_MEMORY = -4,
    TABLE_INVALID = -5
};

/* Initialize an empty table. Returns false if out of memory. */
bool table_create(struct table *t, const struct table_spec *spec, struct lock *lock);
void table_destroy(struct table *t);

/* A handle is generation << 32 | slot. Lpm entries use `prefix`. Ternary entries use `mask` (for
 * range fields, the high end) and `priority`; the largest priority wins. */
int64_t table_add(struct table *t, const uint64_t *key, const uint64_t *mask, uint32_t prefix,
                  int32_t priority, const uint64_t *head_and_data, uint64_t now_ns);
int64_t table_find(const struct table *t, const uint64_t *key, const uint64_t *mask,
                   uint32_t prefix, int32_t priority);
int table_modify(struct table *t, int64_t handle, const uint64_t *head_and_data);
int table_delete(struct table *t, int64_t handle);
/* Return the slot of a handle, or NULL. */
uint64_t *table_slot(const struct table *t, int64_t handle);

/* table_read.c. The copy of an entry has its handle, its priority, and then its slot. */
enum { COPY_HEAD = 2 };
/* Copy at most `room` entries, starting at slot *from. Set *from to the next slot. Returns the
 * number of copied entries. */
uint32_t table_copy(struct table *t, uint32_t *from, uint32_t room, uint64_t *out);
bool table_copy_one(struct table *t, int64_t handle, uint64_t *out);
int table_set_timeout(struct table *t, int64_t handle, uint64_t timeout_ns);
/* Like table_copy(), but only for entries whose timeout expired again since the last report. Writes
 * for each entry its handle, and the number of timeouts since the last hit. */
uint32_t table_age(struct table *t, uint32_t *from, uint64_t now_ns, uint32_t room, uint64_t *out);

/* table_batch.c. Commit functions cannot fail, because a batch allocates all memory when its
 * changes are made. */
struct staged {
    uint64_t *index, *in_use; /* their state after the batch */
    uint64_t *changes;        /* new head and data, per slot */
    uint32_t changes_room;
    struct journal_entry {
        uint32_t number;
        enum { ENTRY_ADDED, ENTRY_DELETED, ENTRY_CHANGED } what;
    } *journal;
    uint32_t count, room;
    uint32_t used;            /* number of entries before the batch */
    /* the batch added the entries with this or a higher sequence number */
    uint64_t sequence;
};
/* Prepare a change of a table in a batch; must be called before each change. Returns false if out
 * of memory. */
bool table_stage(struct table *t);
void table_journal(struct table *t, uint32_t number, int what);
bool table_stage_change(struct table *t, uint32_t number, const uint64_t *head_and_data);
/* These functions are called in this order. The second function is called with the lock held, and
 * returns the number of words that it accessed. */
void table_before_commit(struct table *t);
uint32_t table_commit(struct table *t);
void table_after_commit(struct table *t);
void table_abort(struct table *t);

/* Functions in table.c for the files of the match kinds. */
void table_set_words(const struct table *t, uint64_t *slot, const uint64_t *head_and_data);
void table_release(struct table *t, uint32_t number);
size_t table_index_size(const struct table *t);
ALWAYS_INLINE bool is_present(const struct table *t, uint32_t number)
{
    return t->info[number].generation & 1;
}

/* Called before the slot becomes visible. Returns false if out of memory; then nothing has
 * changed. */
bool lpm_insert(struct table *t, const uint64_t *slot);
/* Called after the slot has become invisible. */
void lpm_remove(struct table *t, const uint64_t *slot);
void lpm_destroy(struct table *t);
bool ternary_insert(struct table *t, uint32_t number);
/* Include the slot in lookups or exclude it, now or when the batch takes effect. */
void ternary_show(struct table *t, uint32_t number, bool is_shown);
size_t ternary_set_size(const struct table *t);
void ternary_destroy(struct table *t);

#endif
