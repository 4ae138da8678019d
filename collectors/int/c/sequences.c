/* Sequence numbers of reports, per source (TR, 3.2). A number counts as lost when it is too old to
 * arrive. So late datagrams do not count as lost.
 *
 * A source that restarts usually starts at 0. A restart is detected in two cases. In the first
 * case, the number steps back by more than the window. In the second case, a number is repeated,
 * but the datagram has different content. If the network duplicates a datagram, both copies have
 * the same content. */
#include "index_internal.h"

static uint64_t *word_of(struct int_source *source, uint32_t number, uint64_t *bit)
{
    *bit = (uint64_t)1 << number % 64;
    return &source->received[number % SEQUENCE_WINDOW / 64];
}

static uint32_t mask_of(const struct int_source *source)
{
    return source->version == 1 ? 0xffffffff : 0x3fffff;
}

static void note_gap(struct int_index *index, struct int_source *source, uint32_t first,
                     uint32_t count, uint64_t time_ns)
{
    struct int_gap *last = index->gaps_used ? &index->gaps[index->gaps_used - 1] : NULL;

    source->lost += count;
    if (last && last->node == source->node && last->hw_id == source->hw_id &&
        last->version == source->version &&
        ((last->first + last->count) & mask_of(source)) == first) {
        last->count += count;
        last->time_ns = time_ns;
        return;
    }
    if (index->gaps_used == index->config.events) {
        index->counters.gaps_dropped++;
        return;
    }
    index->gaps[index->gaps_used++] = (struct int_gap){
        time_ns, source->node, first, count, source->hw_id, source->version, {0}};
}

/* Advances the window by `steps`, but at most by its length. Missing numbers that leave the window
 * count as lost. */
static void advance(struct int_index *index, struct int_source *source, uint32_t steps,
                    uint64_t time_ns)
{
    for (uint32_t i = 1; i <= steps; i++) {
        uint32_t number = source->highest + i;
        uint64_t bit, *word = word_of(source, number, &bit);

        if (!(*word & bit)) {
            note_gap(index, source, (number - SEQUENCE_WINDOW) & mask_of(source), 1, time_ns);
            source->missing--;
        }
        *word &= ~bit;
        source->missing++;
    }
    source->highest = (source->highest + steps) & mask_of(source);
}

static uint16_t *content_of(struct int_index *index, const struct int_source *source, uint32_t number)
{
    return &index->contents[source - index->sources][number % SEQUENCE_WINDOW];
}

static void begin(struct int_index *index, struct int_source *source, uint32_t number)
{
    memset(source->received, 0xff, sizeof source->received);
    memset(index->contents[source - index->sources], 0, sizeof *index->contents);
    source->missing = 0;
    source->highest = number;
}

/* Counts all missing numbers as lost. */
static void give_up(struct int_index *index, struct int_source *source, uint64_t time_ns)
{
    uint32_t highest = source->highest;

    advance(index, source, SEQUENCE_WINDOW, time_ns);
    begin(index, source, highest);
}

static void go_ahead(struct int_index *index, struct int_source *source, uint32_t steps,
                     uint64_t time_ns)
{
    uint64_t bit, *word;

    if (steps > SEQUENCE_WINDOW) {
        uint32_t skipped = steps - SEQUENCE_WINDOW, first;

        advance(index, source, SEQUENCE_WINDOW, time_ns);
        first = (source->highest - SEQUENCE_WINDOW + 1) & mask_of(source);
        note_gap(index, source, first, skipped, time_ns);
        source->highest = (source->highest + skipped) & mask_of(source);
    } else {
        advance(index, source, steps, time_ns);
    }
    word = word_of(source, source->highest, &bit);
    *word |= bit;
    source->missing--;
}

static struct int_source *source_of(struct int_index *index, const struct int_group *group)
{
    uint64_t id = (uint64_t)group->node << 16 | (uint64_t)group->hw_id << 8 | group->version;
    uint64_t at = mix(index->config.seed, id);
    struct int_source *source;

    for (;; at++) {
        uint32_t slot = index->source_slots[at & index->source_mask];

        if (slot == nowhere)
            break;
        source = &index->sources[slot];
        if (source->node == group->node && source->hw_id == group->hw_id &&
            source->version == group->version)
            return source;
    }
    if (index->sources_used == index->config.sources)
        return NULL;
    index->source_slots[at & index->source_mask] = index->sources_used;
    source = &index->sources[index->sources_used++];
    source->node = group->node;
    source->hw_id = group->hw_id;
    source->version = group->version;
    begin(index, source, group->sequence);
    return source;
}

/* Returns whether a datagram differs from the earlier datagram with the same number. */
static bool is_another(struct int_index *index, const struct int_source *source,
                       const struct int_group *group)
{
    uint16_t before = *content_of(index, source, group->sequence);

    return before && before != group->content;
}

/* Handles a number in the window that is not higher than the highest number. Returns false if the
 * number indicates a restart. */
static bool note_behind(struct int_index *index, struct int_source *source,
                        const struct int_group *group)
{
    uint64_t bit, *word = word_of(source, group->sequence, &bit);

    if (*word & bit) {
        if (is_another(index, source, group))
            return false;
        source->duplicates++;
        return true;
    }
    source->reordered++;
    source->missing--;
    *word |= bit;
    return true;
}

void note_sequence(struct int_index *index, const struct int_group *group)
{
    struct int_source *source = source_of(index, group);
    uint32_t ahead, behind;

    if (!source) {
        index->counters.sources_refused++;
        return;
    }
    ahead = (group->sequence - source->highest) & mask_of(source);
    behind = (source->highest - group->sequence) & mask_of(source);
    if (!source->datagrams++) {
        /* this is the first number of the source, so there is no gap; content_of() stores it
         * below */
    } else if (ahead && ahead <= SEQUENCE_JUMP) {
        go_ahead(index, source, ahead, group->time_ns);
    } else if (behind >= SEQUENCE_WINDOW || !note_behind(index, source, group)) {
        source->restarts++;
        give_up(index, source, group->time_ns);
        begin(index, source, group->sequence);
    }
    *content_of(index, source, group->sequence) = group->content;
}

/* Handles the end of the input. All numbers that are still missing are lost. */
void int_index_end(struct int_index *index, uint64_t time_ns)
{
    settle_until(index, ~(uint64_t)0);
    for (uint32_t i = 0; i < index->sources_used; i++)
        give_up(index, &index->sources[i], time_ns);
}
