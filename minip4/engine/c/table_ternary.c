/* Ternary and range match by bit vectors (Lakshman and Stiliadis, SIGCOMM 1998). For each byte of
 * the key and each value of this byte, there is a set of the entries that may match. The
 * intersection of the sets of all bytes is the set of matching entries; the matching entry with the
 * highest priority wins. The cost does not depend on the number of different masks. */
#include <stdlib.h>

#include "memory.h"
#include "table.h"

enum { BLOCK_WORDS = 4, VALUES = 256 };

typedef uint64_t block __attribute__((vector_size(8 * BLOCK_WORDS), aligned(8)));

static const uint64_t *key_of(const struct table *t, uint32_t number)
{
    return t->slots + number * (size_t)t->stride + 1 + t->spec->data_words;
}

static uint64_t *row(const struct table *t, uint32_t byte, uint32_t value)
{
    return t->rows + ((size_t)byte * VALUES + value) * t->blocks * BLOCK_WORDS;
}

size_t ternary_set_size(const struct table *t)
{
    return (size_t)t->blocks * BLOCK_WORDS * sizeof(uint64_t);
}

/* Return whether the ranges of an entry match. The sets of a range field may contain entries that
 * do not match. */
static bool ranges_match(const struct table *t, const uint64_t *own, const uint64_t *key)
{
    const uint64_t *high = own + t->spec->key_words;
    for (uint32_t i = 0; i < t->spec->ranges; i++) {
        const struct range_field *r = &t->spec->range[i];
        uint64_t value = low_bits(key[r->word] >> r->shift, r->width);
        if (value < low_bits(own[r->word] >> r->shift, r->width) ||
            value > low_bits(high[r->word] >> r->shift, r->width))
            return false;
    }
    return true;
}

static bool goes_before(const struct slot_info *a, const struct slot_info *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->sequence < b->sequence;
}

uint64_t *table_find_ternary(const struct table *t, const uint64_t *key)
{
    const struct slot_info *best = NULL;
    const uint64_t *rows[t->active_count + 1];
    for (uint32_t i = 0; i < t->active_count; i++)
        rows[i] = row(t, i, key[t->active[i].word] >> t->active[i].shift & 0xff);
    for (uint32_t b = 0; b < t->blocks; b++) {
        block set = *(const block *)(t->in_use + b * BLOCK_WORDS);
        for (uint32_t i = 0; i < t->active_count; i++)
            set &= *(const block *)(rows[i] + b * BLOCK_WORDS);
        for (uint32_t w = 0; w < BLOCK_WORDS; w++) {
            for (uint64_t left = set[w]; left; left &= left - 1) {
                uint32_t number = (b * BLOCK_WORDS + w) * 64 + (uint32_t)__builtin_ctzll(left);
                const struct slot_info *info = &t->info[number];
                if ((!best || goes_before(info, best)) &&
                    (!t->spec->ranges || ranges_match(t, key_of(t, number), key)))
                    best = info;
            }
        }
    }
    return best ? t->slots + (size_t)(best - t->info) * t->stride : NULL;
}

/* The values of one key byte that an entry allows: value and mask or, for a byte of a range field,
 * low to high. A byte of a range only restricts values if all higher bytes are equal in both ends
 * of the range. */
struct allowed {
    uint8_t value, mask, low, high;
    bool is_range;
};

static struct allowed allowed_values(const struct table *t, const uint64_t *own, uint32_t word,
                                     uint32_t shift)
{
    const uint64_t *second = own + t->spec->key_words;
    struct allowed a = {.value = (uint8_t)(own[word] >> shift),
                        .mask = (uint8_t)(second[word] >> shift)};
    for (uint32_t i = 0; i < t->spec->ranges; i++) {
        const struct range_field *r = &t->spec->range[i];
        /* in a table with ranges, fields start at whole bytes */
        uint32_t end = r->shift + r->width;
        if (r->word != word || shift < r->shift || shift >= end)
            continue;
        uint64_t differs = own[word] ^ second[word];
        bool same_above =
            end <= shift + 8 || !low_bits(differs >> (shift + 8), end - shift - 8);
        a.is_range = true;
        a.low = same_above ? (uint8_t)(own[word] >> shift) : 0;
        a.high = same_above ? (uint8_t)(second[word] >> shift) : 0xff;
    }
    return a;
}

static bool is_allowed(const struct allowed *a, uint32_t value)
{
    return a->is_range ? value >= a->low && value <= a->high : ((value ^ a->value) & a->mask) == 0;
}

/* Add an unused entry to the sets of all values of all bytes, one byte at a time. */
static void put_entry(struct table *t, uint32_t number)
{
    uint64_t bit = UINT64_C(1) << number % 64;
    for (uint32_t i = 0; i < t->active_count; i++) {
        struct allowed a = allowed_values(t, key_of(t, number), t->active[i].word,
                                          t->active[i].shift);
        lock_take(t->lock, HOLD_ENTRY);
        for (uint32_t value = 0; value < VALUES; value++) {
            uint64_t *word = row(t, i, value) + number / 64;
            *word = is_allowed(&a, value) ? *word | bit : *word & ~bit;
        }
        lock_give(t->lock, VALUES);
    }
}

static uint64_t cared_for(const struct table *t, const uint64_t *own, uint32_t word)
{
    uint64_t care = own[t->spec->key_words + word];
    for (uint32_t i = 0; i < t->spec->ranges; i++)
        if (t->spec->range[i].word == word)
            care |= low_bits(UINT64_MAX, t->spec->range[i].width) << t->spec->range[i].shift;
    return care;
}

/* A new layout of a table. */
struct layout {
    struct active_byte *active;
    uint64_t *rows, *in_use, *staged_in_use;
    uint32_t count, blocks;
};

static size_t rows_size(uint32_t active_count, uint32_t blocks)
{
    return ((size_t)active_count * VALUES * blocks + 1) * BLOCK_WORDS * sizeof(uint64_t);
}

static bool allocate_layout(const struct table *t, struct layout *l)
{
    uint32_t words = t->spec->key_words;
    l->blocks = (t->capacity + 64 * BLOCK_WORDS - 1) / (64 * BLOCK_WORDS);
    l->active = calloc((size_t)words * 8 + 1, sizeof *l->active);
    for (uint32_t i = 0; l->active && i < words * 8; i++)
        if (t->care[i / 8] >> i % 8 * 8 & 0xff)
            l->active[l->count++] = (struct active_byte){(uint8_t)(i / 8), (uint8_t)(i % 8 * 8)};
    size_t row_words = (size_t)l->blocks * BLOCK_WORDS;
    /* page faults occur now, not while packets wait */
    l->rows = memory_take(rows_size(l->count, l->blocks));
    l->in_use = calloc(row_words, sizeof *l->in_use);
    l->staged_in_use = t->staged ? calloc(row_words, sizeof *l->in_use) : NULL;
    return l->active && l->rows && l->in_use && (l->staged_in_use || !t->staged);
}

static void give_layout(const struct layout *l)
{
    free(l->active);
    memory_give(l->rows, rows_size(l->count, l->blocks));
    free(l->in_use);
    free(l->staged_in_use);
}

/* Write one word of each set of a byte. The word is for the 64 slots starting with `first`; only
 * slots in `slots` count. */
static void lay_out_word(const struct table *t, const struct layout *l, uint32_t byte,
                         uint32_t first, uint64_t slots)
{
    uint64_t sets[VALUES] = {0}, all = 0;
    size_t row_words = (size_t)l->blocks * BLOCK_WORDS;
    for (; slots; slots &= slots - 1) {
        uint64_t bit = slots & -slots;
        struct allowed a = allowed_values(t, key_of(t, first + (uint32_t)__builtin_ctzll(slots)),
                                          l->active[byte].word, l->active[byte].shift);
        if (!a.is_range && !a.mask)
            all |= bit;
        else if (!a.is_range && a.mask == 0xff)
            sets[a.value] |= bit;
        else
            for (uint32_t value = 0; value < VALUES; value++)
                sets[value] |= is_allowed(&a, value) ? bit : 0;
    }
    uint64_t *to = l->rows + (size_t)byte * VALUES * row_words + first / 64;
    for (uint32_t value = 0; value < VALUES; value++)
        to[value * row_words] = sets[value] | all;
}

/* Build the sets again, for the bytes that masks use and for the current number of slots. */
static bool rebuild(struct table *t)
{
    struct layout l = {0}, old = {t->active, t->rows, t->in_use, NULL, t->active_count, t->blocks};
    if (!allocate_layout(t, &l)) {
        give_layout(&l);
        return false;
    }
    if (t->blocks)
        memcpy(l.in_use, t->in_use, ternary_set_size(t));
    if (t->staged && t->staged->in_use)
        memcpy(l.staged_in_use, t->staged->in_use, ternary_set_size(t));
    for (uint32_t word = 0; word < t->blocks * BLOCK_WORDS; word++) {
        uint64_t slots = l.in_use[word] | (t->staged ? l.staged_in_use[word] : 0);
        for (uint32_t i = 0; slots && i < l.count; i++)
            lay_out_word(t, &l, i, word * 64, slots);
    }
    lock_take(t->lock, HOLD_ENTRY);
    t->active = l.active;
    t->rows = l.rows;
    t->in_use = l.in_use;
    t->active_count = l.count;
    t->blocks = l.blocks;
    lock_give(t->lock, 5);
    if (t->staged) {
        old.staged_in_use = t->staged->in_use;
        t->staged->in_use = l.staged_in_use;
    }
    give_layout(&old);
    return true;
}

/* If out of memory, the entries keep their previous layout. */
static void forget_new_care(struct table *t)
{
    memset(t->care, 0, t->spec->key_words * sizeof *t->care);
    for (uint32_t i = 0; i < t->active_count; i++)
        t->care[t->active[i].word] |= UINT64_C(0xff) << t->active[i].shift;
}

bool ternary_insert(struct table *t, uint32_t number)
{
    uint32_t words = t->spec->key_words;
    if (!t->care && !(t->care = calloc(words + 1, sizeof *t->care)))
        return false;
    bool is_new = t->blocks * BLOCK_WORDS * 64 < t->capacity;
    for (uint32_t w = 0; w < words; w++) {
        uint64_t care = cared_for(t, key_of(t, number), w);
        for (uint32_t shift = 0; shift < 64; shift += 8)
            is_new |= (care >> shift & 0xff) && !(t->care[w] >> shift & 0xff);
        t->care[w] |= care;
    }
    if (is_new && !rebuild(t)) {
        forget_new_care(t);
        return false;
    }
    put_entry(t, number);
    return true;
}

void ternary_show(struct table *t, uint32_t number, bool is_shown)
{
    uint64_t bit = UINT64_C(1) << number % 64;
    uint64_t *word = (t->staged ? t->staged->in_use : t->in_use) + number / 64;
    if (!t->staged)
        lock_take(t->lock, HOLD_ENTRY);
    *word = is_shown ? *word | bit : *word & ~bit;
    if (!t->staged)
        lock_give(t->lock, 1);
}

void ternary_destroy(struct table *t)
{
    free(t->care);
    free(t->active);
    memory_give(t->rows, rows_size(t->active_count, t->blocks));
    free(t->in_use);
}
