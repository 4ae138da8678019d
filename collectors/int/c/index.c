/* Index of flows: a table of bounded size. If it is full, the flow that was not seen for the
 * longest time is evicted. */
#include <stdlib.h>

#include "index_internal.h"

/* Returns the smallest power of two that is at least `min`. */
static uint32_t power_of_two(uint32_t min)
{
    uint32_t power = 1;

    while (power < min)
        power *= 2;
    return power;
}

static uint32_t *make_chains(uint32_t number)
{
    uint32_t *chains = malloc(number * sizeof *chains);

    for (uint32_t i = 0; chains && i < number; i++)
        chains[i] = nowhere;
    return chains;
}

void int_index_destroy(struct int_index *index)
{
    free(index->flows);
    free(index->flow_chains);
    free(index->pending);
    free(index->pending_chains);
    free(index->sources);
    free(index->contents);
    free(index->source_slots);
    free(index->gaps);
    free(index->changes);
    free(index);
}

/* Creates an index. Returns NULL if memory is exhausted. Unused entries take no memory. */
struct int_index *int_index_create(const struct int_index_config *config)
{
    struct int_index *index = calloc(1, sizeof *index);

    if (!index)
        return NULL;
    index->config = *config;
    index->flow_mask = power_of_two(config->flows) - 1;
    index->pending_mask = power_of_two(config->packets) - 1;
    /* twice as many slots as sources, so at most half of the slots are used */
    index->source_mask = 2 * power_of_two(config->sources) - 1;
    index->newest = index->oldest = nowhere;
    index->flows = calloc(config->flows, sizeof *index->flows);
    index->pending = calloc(config->packets, sizeof *index->pending);
    index->sources = calloc(config->sources, sizeof *index->sources);
    index->contents = calloc(config->sources, sizeof *index->contents);
    index->gaps = calloc(config->events, sizeof *index->gaps);
    index->changes = calloc(config->events, sizeof *index->changes);
    index->flow_chains = make_chains(index->flow_mask + 1);
    index->pending_chains = make_chains(index->pending_mask + 1);
    index->source_slots = make_chains(index->source_mask + 1);
    if (index->flows && index->pending && index->sources && index->contents && index->gaps && index->changes &&
        index->flow_chains && index->pending_chains && index->source_slots)
        return index;
    int_index_destroy(index);
    return NULL;
}

static void unlink_by_age(struct int_index *index, uint32_t at)
{
    struct flow_entry *entry = &index->flows[at];

    *(entry->newer == nowhere ? &index->newest : &index->flows[entry->newer].older) = entry->older;
    *(entry->older == nowhere ? &index->oldest : &index->flows[entry->older].newer) = entry->newer;
}

static void make_newest(struct int_index *index, uint32_t at)
{
    struct flow_entry *entry = &index->flows[at];

    entry->newer = nowhere;
    entry->older = index->newest;
    *(index->newest == nowhere ? &index->oldest : &index->flows[index->newest].newer) = at;
    index->newest = at;
}

static uint32_t *chain_of(const struct int_index *index, const struct int_key *key)
{
    return &index->flow_chains[hash_key(key, index->config.seed) & index->flow_mask];
}

/* Removes the flow that was not seen for the longest time. Returns its index. */
static uint32_t evict(struct int_index *index)
{
    uint32_t at = index->oldest, *link = chain_of(index, &index->flows[at].flow.key);

    while (*link != at)
        link = &index->flows[*link].next_in_chain;
    *link = index->flows[at].next_in_chain;
    unlink_by_age(index, at);
    index->counters.flows_evicted++;
    index->counters.reports_evicted += index->flows[at].flow.reports;
    return at;
}

static uint32_t find_or_add(struct int_index *index, const struct int_report *report)
{
    uint32_t *chain = chain_of(index, &report->key), at = *chain;

    while (at != nowhere && memcmp(&index->flows[at].flow.key, &report->key, sizeof report->key))
        at = index->flows[at].next_in_chain;
    if (at != nowhere) {
        if (at != index->newest) {
            unlink_by_age(index, at);
            make_newest(index, at);
        }
        return at;
    }
    at = index->flows_used < index->config.flows ? index->flows_used++ : evict(index);
    index->flows[at] = (struct flow_entry){
        .flow = {.key = report->key, .flow = report->flow, .first_ns = report->time_ns},
        .number = ++index->next_number, .next_in_chain = *chain};
    *chain = at;
    make_newest(index, at);
    return at;
}

static void note_drop(struct int_flow *flow, const struct int_report *report)
{
    flow->dropped++;
    flow->drop_node = report->node;
    flow->drop_reason = report->reason;
    flow->drop_queue = report->queue;
}

/* Adds a path, or a part of it, from a report of a tracked flow. */
static void note_reported(struct int_index *index, uint32_t at, const struct int_report *report,
                      const struct int_hop *hops)
{
    bool is_trace = report->report_type == OF_IOAM && report->ioam_type <= IOAM_INCREMENTAL;
    bool is_stack = (report->int_type == INT_MD || is_trace) &&
                    !(report->flags & REPORT_INTERMEDIATE);
    bool is_partial = report->flags & REPORT_DROPPED || report->parse_status ||
                      report->int_flags & (INT_HOPS_EXCEEDED | INT_MTU_EXCEEDED) ||
                      report->ioam_flags & IOAM_OVERFLOW;
    struct path_report reported = {hops, report->hops, report->time_ns, true};
    struct int_flow *flow = &index->flows[at].flow;

    if (is_stack && !is_pending(index, at, report->packet)) {
        if (is_partial)
            note_partial(flow, reported);
        else
            note_path(index, flow, reported);
        return;
    }
    if (!report->packet)
        note_unmatched(flow, reported);
    if (!report->packet && is_partial)
        return;
    if (!add_pending(index, at, report, hops, is_partial))
        index->counters.long_paths++;
}

static void note_report(struct int_index *index, const struct int_report *report,
                        const struct int_hop *hops)
{
    uint32_t at = find_or_add(index, report);
    struct int_flow *flow = &index->flows[at].flow;

    flow->reports++;
    flow->last_ns = report->time_ns;
    flow->congested += (report->flags & REPORT_CONGESTED) != 0;
    if (report->flags & REPORT_DROPPED)
        note_drop(flow, report);
    if (report->flags & REPORT_TRACKED && report->hops)
        note_reported(index, at, report, hops);
}

/* Adds the content of decoded reports. */
void int_index_add(struct int_index *index, const struct int_output *decoded)
{
    for (uint32_t i = 0; i < decoded->groups_used; i++)
        note_sequence(index, &decoded->groups[i]);
    for (uint32_t i = 0; i < decoded->reports_used; i++) {
        const struct int_report *report = &decoded->reports[i];

        settle_until(index, report->time_ns);
        if (report->key.ip_version)
            note_report(index, report, decoded->hops + report->first_hop);
    }
}

/* Closes packets that have waited long enough for reports of other nodes. */
void int_index_settle(struct int_index *index, uint64_t now_ns)
{
    settle_until(index, now_ns);
}

void int_index_counters(const struct int_index *index, struct int_index_counters *counters)
{
    *counters = index->counters;
}

/* Copies the flows; the flow that was seen last is first. Returns the number of flows. `flows` must
 * have room for the maximum number of flows. */
uint32_t int_index_flows(const struct int_index *index, struct int_flow *flows)
{
    uint32_t number = 0;

    for (uint32_t at = index->newest; at != nowhere; at = index->flows[at].older)
        flows[number++] = index->flows[at].flow;
    return number;
}

uint32_t int_index_flow_count(const struct int_index *index)
{
    return index->flows_used;
}

/* Copies the sources in the order of their first datagrams. Returns the number of sources. */
uint32_t int_index_sources(const struct int_index *index, struct int_source *sources)
{
    memcpy(sources, index->sources, index->sources_used * sizeof *sources);
    return index->sources_used;
}

/* Copies and removes the gaps. `gaps` must have room for the configured number of events. */
uint32_t int_index_take_gaps(struct int_index *index, struct int_gap *gaps)
{
    uint32_t number = index->gaps_used;

    memcpy(gaps, index->gaps, number * sizeof *gaps);
    index->gaps_used = 0;
    return number;
}

uint32_t int_index_take_changes(struct int_index *index, struct int_change *changes)
{
    uint32_t number = index->changes_used;

    memcpy(changes, index->changes, number * sizeof *changes);
    index->changes_used = 0;
    return number;
}
