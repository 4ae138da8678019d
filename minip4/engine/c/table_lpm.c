/* Longest prefix match: one hash lookup for each prefix length that may match. Which may is told by a
 * filter over the field's first bits (after those that all entries share), so that of many lengths
 * usually one or two are tried, however many entries there are. */
#include <stdlib.h>

#include "memory.h"
#include "table.h"

enum { MAX_FILTER_BITS = 16, SKIP_LIMIT = 48 };

/* The lpm field's first 64 bits, left-aligned, of a key. */
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

/* All ones over the other fields and the first `prefix` bits of the lpm field. */
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

static void filter_add(struct table *t, uint64_t top, uint32_t prefix, uint32_t position)
{
    uint64_t bit = UINT64_C(1) << (position < 63 ? position : 63);
    uint32_t known = prefix > t->skip_bits ? prefix - t->skip_bits : 0; /* bits of the bucket */
    uint32_t spread = known < t->filter_bits ? t->filter_bits - known : 0;
    uint64_t first = top << t->skip_bits >> (64 - t->filter_bits) >> spread << spread;
    for (uint64_t i = first; i < first + (UINT64_C(1) << spread); i++)
        t->filter[i] |= bit;
}

static uint32_t position_of(const struct table *t, uint32_t prefix)
{
    uint32_t i = 0;
    while (i < t->length_count && length_at(t, i)->prefix != prefix)
        i++;
    return i;
}

/* Bits that all entries' fields begin with; short prefixes match in every bucket and do not count. */
static uint32_t shared_bits(const struct table *t)
{
    uint64_t differs = 0, first = 0;
    uint32_t limit = SKIP_LIMIT;
    bool any = false;
    for (uint32_t i = 0; i < t->fresh; i++) {
        const uint64_t *slot = t->slots + i * (size_t)t->stride;
        uint32_t prefix = slot_prefix(slot);
        if (!(t->info[i].generation & 1) || !prefix)
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

static bool rebuild_filter(struct table *t)
{
    uint32_t bits = 4;
    while (bits < MAX_FILTER_BITS && (1u << bits) < 2 * t->used)
        bits++;
    uint64_t *filter = memory_take(filter_size(bits));
    if (!filter)
        return false;
    memory_give(t->filter, filter_size(t->filter_bits));
    t->filter = filter;
    t->filter_bits = (uint16_t)bits;
    t->skip_bits = (uint16_t)shared_bits(t);
    t->filter_entries = t->used;
    t->stale = 0;
    for (uint32_t i = 0; i < t->fresh; i++) {
        const uint64_t *slot = t->slots + i * (size_t)t->stride;
        if (t->info[i].generation & 1)
            filter_add(t, top_bits(t->spec, slot + 1 + t->spec->data_words), slot_prefix(slot),
                       position_of(t, slot_prefix(slot)));
    }
    return true;
}

/* Makes room for a prefix length that was not used before. */
static bool add_length(struct table *t, uint32_t prefix)
{
    uint32_t count = t->length_count;
    size_t size = length_size(t);
    if (count == t->length_room) {
        uint64_t *lengths = memory_resize(t->lengths, count * size, (2 * count + 2) * size);
        if (!lengths)
            return false;
        t->lengths = lengths;
        t->length_room = 2 * count + 2;
    }
    uint32_t i = 0;
    while (i < count && length_at(t, i)->prefix > prefix)
        i++;
    memmove(length_at(t, i + 1), length_at(t, i), (count - i) * size);
    *length_at(t, i) = (struct length){.prefix = prefix};
    make_mask(t->spec, prefix, length_at(t, i)->mask);
    t->length_count++;
    return true;
}

bool lpm_insert(struct table *t, const uint64_t *slot)
{
    uint32_t prefix = slot_prefix(slot), position = position_of(t, prefix);
    bool is_new = position == t->length_count;
    if (is_new && !add_length(t, prefix))
        return false;
    position = position_of(t, prefix);
    length_at(t, position)->entries++;
    if (is_new || t->used > 2 * t->filter_entries + 8)
        return rebuild_filter(t);
    filter_add(t, top_bits(t->spec, slot + 1 + t->spec->data_words), prefix, position);
    return true;
}

void lpm_remove(struct table *t, const uint64_t *slot)
{
    uint32_t position = position_of(t, slot_prefix(slot));
    if (position == t->length_count)
        return; /* an insertion that found no memory */
    bool is_last = --length_at(t, position)->entries == 0;
    if (is_last) {
        size_t size = length_size(t);
        uint32_t count = t->length_count--;
        memmove(length_at(t, position), length_at(t, position + 1), (count - 1 - position) * size);
    }
    /* Bits of deleted entries only cost time; but positions must be right. */
    if ((is_last || ++t->stale > t->used / 2 + 8) && !rebuild_filter(t))
        memset(t->filter, 0xff, sizeof *t->filter << t->filter_bits);
}

void lpm_destroy(struct table *t)
{
    memory_give(t->lengths, t->length_room * length_size(t));
    memory_give(t->filter, filter_size(t->filter_bits));
}
