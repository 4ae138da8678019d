/* Packets about which each node sends its own report (INT-XD, INT-MX). The reports of one packet
 * are combined. If the packets of a flow cannot be distinguished, they are all combined as packet
 * 0. */
#include "index_internal.h"

static uint32_t *chain_of(const struct int_index *index, uint32_t entry, uint32_t packet)
{
    uint64_t hash = mix(mix(index->config.seed, index->flows[entry].number), packet);

    return &index->pending_chains[hash & index->pending_mask];
}

static struct pending *find(const struct int_index *index, uint32_t entry, uint32_t packet)
{
    uint64_t number = index->flows[entry].number;
    uint32_t at = *chain_of(index, entry, packet);

    while (at != nowhere && (index->pending[at].flow_number != number ||
                             index->pending[at].packet != packet))
        at = index->pending[at].next_in_chain;
    return at == nowhere ? NULL : &index->pending[at];
}

bool is_pending(const struct int_index *index, uint32_t entry, uint32_t packet)
{
    return packet && index->pending_used && find(index, entry, packet);
}

/* Returns whether a hop comes before another. Routers decrement the TTL, so the hop with the higher
 * TTL comes first. For equal TTLs, the ingress times are compared, and then the egress times: a
 * host's edge program is less than a microsecond away from its switch. */
static bool is_before(const struct pending *pending, unsigned one, unsigned other)
{
    const struct int_hop *a = &pending->hop[one], *b = &pending->hop[other];

    if (pending->ttl[one] != pending->ttl[other])
        return pending->ttl[one] > pending->ttl[other];
    if (!(a->has & b->has & BIT_INGRESS))
        return false;
    if (a->ingress_ns != b->ingress_ns)
        return a->ingress_ns < b->ingress_ns;
    return a->has & b->has & BIT_EGRESS && a->egress_ns < b->egress_ns;
}

/* Sorts the hops of a packet (insertion sort). If the order of two hops is unknown, the hop whose
 * report arrived first stays first. */
static void sort_hops(struct pending *pending)
{
    for (unsigned i = 1; i < pending->hops; i++) {
        for (unsigned j = i; j && is_before(pending, j, j - 1); j--) {
            struct int_hop hop = pending->hop[j];
            uint8_t ttl = pending->ttl[j];

            pending->hop[j] = pending->hop[j - 1];
            pending->ttl[j] = pending->ttl[j - 1];
            pending->hop[j - 1] = hop;
            pending->ttl[j - 1] = ttl;
        }
    }
}

/* Removes the oldest packet, and updates its flow. */
static void close_oldest(struct int_index *index)
{
    struct pending *oldest = &index->pending[index->pending_first];
    struct flow_entry *entry = &index->flows[oldest->entry];
    struct path_report reported = {oldest->hop, oldest->hops, oldest->time_ns, false};
    uint64_t hash = mix(mix(index->config.seed, oldest->flow_number), oldest->packet);
    uint32_t *link = &index->pending_chains[hash & index->pending_mask];

    while (*link != index->pending_first)
        link = &index->pending[*link].next_in_chain;
    *link = oldest->next_in_chain;
    index->pending_first = (index->pending_first + 1) % index->config.packets;
    index->pending_used--;
    /* the entry belongs to another flow now, because the flow of the packet was evicted */
    if (entry->number != oldest->flow_number)
        return;
    sort_hops(oldest);
    if (!oldest->packet)
        note_interval(index, &entry->flow, reported);
    else if (oldest->is_partial)
        note_partial(&entry->flow, reported);
    else
        note_path(index, &entry->flow, reported);
}

/* Closes all packets that have waited long enough. */
void settle_until(struct int_index *index, uint64_t now_ns)
{
    while (index->pending_used) {
        uint64_t since_ns = index->pending[index->pending_first].time_ns;

        if (now_ns < since_ns || now_ns - since_ns < index->config.settle_ns)
            return;
        close_oldest(index);
    }
}

static struct pending *begin(struct int_index *index, uint32_t entry,
                             const struct int_report *report)
{
    uint32_t *chain = chain_of(index, entry, report->packet), at;
    struct pending *pending;

    if (index->pending_used == index->config.packets) {
        index->counters.packets_hurried++;
        close_oldest(index);
    }
    at = (index->pending_first + index->pending_used++) % index->config.packets;
    pending = &index->pending[at];
    pending->flow_number = index->flows[entry].number;
    pending->time_ns = report->time_ns;
    pending->entry = entry;
    pending->packet = report->packet;
    pending->hops = 0;
    pending->is_partial = false;
    pending->next_in_chain = *chain;
    *chain = at;
    return pending;
}

static bool has_hop(const struct pending *pending, uint32_t node, uint8_t ttl)
{
    for (unsigned i = 0; i < pending->hops; i++)
        if (pending->hop[i].node == node && pending->ttl[i] == ttl)
            return true;
    return false;
}

/* Adds the hops of a report to the packet. Returns false if the packet would have too many hops. */
bool add_pending(struct int_index *index, uint32_t entry, const struct int_report *report,
                 const struct int_hop *hops, bool is_partial)
{
    struct pending *pending = find(index, entry, report->packet);

    if (!pending)
        pending = begin(index, entry, report);
    pending->is_partial |= is_partial;
    for (unsigned i = 0; i < report->hops; i++) {
        if (has_hop(pending, hops[i].node, report->ttl))
            continue;
        if (pending->hops == PATH_HOPS)
            return false;
        pending->ttl[pending->hops] = report->ttl;
        pending->hop[pending->hops++] = hops[i];
    }
    return true;
}
