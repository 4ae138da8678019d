/* Longest prefix match with one hash lookup per prefix length that may match. A filter selects
 * these lengths by the field's first bits (after those bits that all entries share). Usually it
 * selects one or two, regardless of the number of entries. */
#include <stdlib.h>

#include "memory.h"
#include "table.h"

enum { MAX_FILTER_BITS = 16, SKIP_LIMIT = 48 };

/* Return the first 64 bits of a key's lpm field, left-aligned. */
static uint64_t top_bits(const struct table_spec *spec, const uint64_t *key)
{
    uint32_t width = spec->lpm_width;
    if (!width)
        return 0;
    if (width <= 64)
        return key[spec->lpm_word] >> spec->lpm_shift << (64 - width);
    uint32_t last = spec->lpm_word + (width - 1) / 64, used = (width - 1) % 64 + 1;
    uint64_t top = key[last] << (64 - used);
    return used == 64 ? top : top | key[last - 1] >> used;
}

/* Write a mask with ones in all other fields and in the first `prefix` bits of the lpm field. */
static void make_mask(const struct table_spec *spec, uint32_t prefix, uint64_t *mask)
{
    memset(mask, 0xff, spec->key_words * sizeof *mask);
    for (uint32_t bit = 0; bit < spec->lpm_width - prefix; bit++) {
        uint32_t at = spec->lpm_shift + bit;
        mask[spec->lpm_word + at / 64] &= ~(UINT64_C(1) << at % 64);
    }
}

static struct length *length_at(const struct table *t, uint32_t number)
{
    return table_length(t, number, t->spec->key_words);
}

static size_t length_size(const struct table *t)
{
    return (1 + t->spec->key_words) * sizeof *t->lengths;
}

static size_t filter_size(uint32_t bits)
{
    return sizeof(uint64_t) << bits;
}

/* A filter: sets of prefix lengths, indexed by `bits` bits of the field after the first `skip`
 * bits. */
struct filter {
    uint64_t *sets;
    uint16_t bits, skip;
};

/* Return the first index of the filter that a prefix matches; *count is the number of such
 * indices. */
static uint32_t spread(const struct filter *f, uint64_t top, uint32_t prefix, uint32_t *count)
{
    /* number of index bits that the prefix determines */
    uint32_t known = prefix > f->skip ? prefix - f->skip : 0;
    uint32_t open = known < f->bits ? f->bits - known : 0;
    *count = 1u << open;
    return (uint32_t)(top << f->skip >> (64 - f->bits) >> open << open);
}

static uint64_t position_bit(uint32_t position)
{
    return UINT64_C(1) << (position < 63 ? position : 63);
}

static uint32_t position_of(const struct table *t, const uint64_t *lengths, uint32_t count,
                            uint32_t prefix)
{
    uint32_t i = 0;
    size_t words = 1 + t->spec->key_words;
    while (i < count && ((const struct length *)(lengths + i * words))->prefix != prefix)
        i++;
    return i;
}

/* Add a length to the filter that packets use, for all indices that a prefix matches. */
static void filter_add(struct table *t, uint64_t top, uint32_t prefix, uint32_t position)
{
    uint32_t count, first = spread(&(struct filter){t->filter, t->filter_bits, t->skip_bits}, top,
                                   prefix, &count);
    while (count) {
        uint32_t slice = count < SLICE_WORDS ? count : SLICE_WORDS;
        lock_take(t->lock, HOLD_ENTRY);
        for (uint32_t i = first; i < first + slice; i++)
            t->filter[i] |= position_bit(position);
        lock_give(t->lock, slice);
        first += slice;
        count -= slice;
    }
}

/* Return the number of first bits that the fields of all entries share. Short prefixes match all
 * indices and do not count. */
static uint32_t shared_bits(const struct table *t)
{
    uint64_t differs = 0, first = 0;
    uint32_t limit = SKIP_LIMIT;
    bool any = false;
    for (uint32_t i = 0; i < t->fresh; i++) {
        const uint64_t *slot = t->slots + i * (size_t)t->stride;
        uint32_t prefix = slot_prefix(slot);
        if (!is_present(t, i) || !prefix)
            continue;
        uint64_t top = top_bits(t->spec, slot + 1 + t->spec->data_words);
        first = any ? first : top;
        any = true;
        differs |= top ^ first;
        limit = prefix < limit ? prefix : limit;
    }
    uint32_t shared = differs ? (uint32_t)__builtin_clzll(differs) : limit;
    return shared < limit ? shared : limit;
}

/* Create a filter of all entries for these lengths. If out of memory, `sets` is NULL. */
static struct filter make_filter(const struct table *t, const uint64_t *lengths, uint32_t count)
{
    struct filter f = {.bits = 4};
    while (f.bits < MAX_FILTER_BITS && (1u << f.bits) < 2 * t->used)
        f.bits++;
    f.sets = memory_take(filter_size(f.bits));
    if (!f.sets)
        return f;
    f.skip = (uint16_t)shared_bits(t);
    for (uint32_t i = 0; i < t->fresh; i++) {
        const uint64_t *slot = t->slots + i * (size_t)t->stride;
        if (!is_present(t, i))
            continue;
        uint32_t places, prefix = slot_prefix(slot);
        uint32_t at = spread(&f, top_bits(t->spec, slot + 1 + t->spec->data_words), prefix, &places);
        uint64_t bit = position_bit(position_of(t, lengths, count, prefix));
        while (places--)
            f.sets[at++] |= bit;
    }
    return f;
}

/* Install a filter and, if they have changed, its lengths. */
static void replace(struct table *t, const struct filter *f, uint64_t *lengths, uint32_t count,
                    uint32_t room)
{
    uint64_t *old_filter = t->filter, *old_lengths = t->lengths;
    size_t old_size = filter_size(t->filter_bits), old_lengths_size = t->length_room * length_size(t);
    lock_take(t->lock, HOLD_ENTRY);
    t->filter = f->sets;
    t->filter_bits = f->bits;
    t->skip_bits = f->skip;
    t->lengths = lengths;
    t->length_count = count;
    lock_give(t->lock, 4);
    t->length_room = room;
    t->filter_entries = t->used;
    t->stale = 0;
    memory_give(old_filter, old_size);
    if (old_lengths != lengths)
        memory_give(old_lengths, old_lengths_size);
}

static bool rebuild_filter(struct table *t)
{
    struct filter f = make_filter(t, t->lengths, t->length_count);
    if (f.sets)
        replace(t, &f, t->lengths, t->length_count, t->length_room);
    return f.sets != NULL;
}

/* Add a new prefix length, or remove an unused one, in a copy of the lengths with its own
 * filter. */
static bool change_lengths(struct table *t, uint32_t prefix, bool is_new)
{
    uint32_t count = t->length_count, room = is_new ? count + 1 : count, at = 0;
    size_t words = 1 + t->spec->key_words;
    uint64_t *lengths = memory_take(room * length_size(t));
    if (!lengths)
        return false;
    while (at < count && length_at(t, at)->prefix > prefix)
        at++;
    for (uint32_t from = 0, to = 0; from < count; from++) {
        if (from == at && !is_new)
            continue;
        if (from == at)
            to++;
        memcpy(lengths + to++ * words, t->lengths + from * words, length_size(t));
    }
    if (is_new) {
        struct length *made = (struct length *)(lengths + at * words);
        made->prefix = prefix;
        make_mask(t->spec, prefix, made->mask);
    }
    count = is_new ? count + 1 : count - 1;
    struct filter f = make_filter(t, lengths, count);
    if (f.sets)
        replace(t, &f, lengths, count, room);
    else
        memory_give(lengths, room * length_size(t));
    return f.sets != NULL;
}

bool lpm_insert(struct table *t, const uint64_t *slot)
{
    uint32_t prefix = slot_prefix(slot);
    uint32_t position = position_of(t, t->lengths, t->length_count, prefix);
    if (position == t->length_count) {
        if (!change_lengths(t, prefix, true))
            return false;
        position = position_of(t, t->lengths, t->length_count, prefix);
    } else if (t->used > 2 * t->filter_entries + 8) {
        if (!rebuild_filter(t))
            return false;
    } else {
        filter_add(t, top_bits(t->spec, slot + 1 + t->spec->data_words), prefix, position);
    }
    length_at(t, position)->entries++;
    return true;
}

/* If out of memory, bits of deleted entries and unused lengths remain. This only costs time. */
void lpm_remove(struct table *t, const uint64_t *slot)
{
    uint32_t prefix = slot_prefix(slot);
    uint32_t position = position_of(t, t->lengths, t->length_count, prefix);
    if (--length_at(t, position)->entries == 0)
        change_lengths(t, prefix, false);
    else if (++t->stale > t->used / 2 + 8)
        rebuild_filter(t);
}

void lpm_destroy(struct table *t)
{
    memory_give(t->lengths, t->length_room * length_size(t));
    memory_give(t->filter, filter_size(t->filter_bits));
}
