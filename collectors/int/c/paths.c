/* Paths of flows, as packets tell of them, and statistics of their hops and links. */
#include "index_internal.h"

static void add_value(struct int_statistics *statistics, int64_t value)
{
    if (!statistics->count || value < statistics->least)
        statistics->least = value;
    if (!statistics->count || value > statistics->most)
        statistics->most = value;
    statistics->count++;
    statistics->sum += value;
    statistics->last = value;
}

static void add_hop_values(struct int_path_hop *to, const struct int_hop *hop)
{
    if (hop->has & BIT_LATENCY)
        add_value(&to->latency_ns, (int64_t)hop->latency_ns);
    if (hop->has & BIT_QUEUE)
        add_value(&to->occupancy, hop->occupancy);
}

/* Those of the path's first packet stand. */
static void note_interfaces(struct int_path_hop *to, const struct int_hop *hop)
{
    if (hop->has & BIT_INTERFACES && !to->ingress && !to->egress) {
        to->ingress = hop->ingress;
        to->egress = hop->egress;
    }
}

/* Interfaces that were not told differ from none. */
static bool is_same(const struct int_path_hop *known, const struct int_hop *hop)
{
    return known->node == hop->node &&
           (!(hop->has & BIT_INTERFACES) || (!known->ingress && !known->egress) ||
            (known->ingress == hop->ingress && known->egress == hop->egress));
}

/* Whether what is told agrees with the path, in order, but for hops that are not told of. */
static bool is_part_of_path(const struct int_flow *flow, struct told told)
{
    unsigned at = 0;

    for (unsigned i = 0; i < told.count; i++, at++) {
        while (at < flow->hops && !is_same(&flow->path[at], &told.hops[i]))
            at++;
        if (at == flow->hops)
            return false;
    }
    return true;
}

static bool has_path_in_it(const struct int_flow *flow, struct told told)
{
    unsigned at = 0;

    for (unsigned i = 0; i < flow->hops; i++, at++) {
        while (at < told.count && !is_same(&flow->path[i], &told.hops[at]))
            at++;
        if (at == told.count)
            return false;
    }
    return true;
}

/* Takes another path; nodes that stay keep their statistics, and links between two that do. */
static void set_path(struct int_flow *flow, struct told told)
{
    struct int_path_hop before[PATH_HOPS];
    unsigned before_hops = flow->hops;

    memcpy(before, flow->path, sizeof before);
    for (unsigned i = 0; i < told.count; i++) {
        struct int_path_hop *hop = &flow->path[i];
        bool is_same_link = false;

        *hop = (struct int_path_hop){.node = told.hops[i].node};
        for (unsigned j = 0; j < before_hops; j++) {
            if (before[j].node != hop->node)
                continue;
            *hop = before[j];
            is_same_link = i && j && before[j - 1].node == told.hops[i - 1].node;
        }
        if (!is_same_link)
            hop->link_ns = (struct int_statistics){0};
        hop->ingress = hop->egress = 0;
    }
    flow->hops = (uint16_t)told.count;
}

static void note_change(struct int_index *index, struct int_flow *flow, struct told told)
{
    struct int_change *change = &index->changes[index->changes_used];

    flow->changes++;
    flow->changed_ns = told.time_ns;
    if (index->changes_used == index->config.events) {
        index->counters.changes_dropped++;
        return;
    }
    index->changes_used++;
    *change = (struct int_change){.time_ns = told.time_ns, .flow = flow->flow,
                                  .before_hops = flow->hops, .after_hops = (uint16_t)told.count};
    for (unsigned i = 0; i < flow->hops; i++)
        change->before[i] = flow->path[i].node;
    for (unsigned i = 0; i < told.count; i++)
        change->after[i] = told.hops[i].node;
}

/* Adds what hops tell to those of the path. Times of two neighbours make the link's. */
static void add_values(struct int_flow *flow, struct told told)
{
    unsigned at = 0;

    for (unsigned i = 0; i < told.count; i++) {
        const struct int_hop *hop = &told.hops[i], *last = i ? hop - 1 : hop;
        unsigned from = at;

        while (at < flow->hops && flow->path[at].node != hop->node)
            at++;
        if (at == flow->hops) {
            at = from;
            continue;
        }
        add_hop_values(&flow->path[at], hop);
        note_interfaces(&flow->path[at], hop);
        if (i && at && flow->path[at - 1].node == last->node && last->has & BIT_EGRESS &&
            hop->has & BIT_INGRESS)
            add_value(&flow->path[at].link_ns, (int64_t)(hop->ingress_ns - last->egress_ns));
        at++;
    }
}

/* Compares what is told with the path that is known, and takes it where it says more, or another. */
static void take_path(struct int_index *index, struct int_flow *flow, struct told told)
{
    bool is_same_path =
        is_part_of_path(flow, told) && (told.count == flow->hops || !told.is_whole);

    if (flow->paths && !is_same_path && (told.is_whole || !has_path_in_it(flow, told)))
        note_change(index, flow, told);
    if (!flow->paths || !is_same_path)
        set_path(flow, told);
    flow->paths++;
}

/* A packet of which all nodes told, or none is known that did not. */
void note_path(struct int_index *index, struct int_flow *flow, struct told told)
{
    if (told.count > PATH_HOPS) {
        index->counters.long_paths++;
        told.count = PATH_HOPS;
    }
    take_path(index, flow, told);
    add_values(flow, told);
}

static bool is_on_path(const struct int_flow *flow, const struct int_hop *hop)
{
    for (unsigned i = 0; i < flow->hops; i++)
        if (is_same(&flow->path[i], hop))
            return true;
    return false;
}

static bool is_reported(struct told told, const struct int_path_hop *known)
{
    for (unsigned i = 0; i < told.count; i++)
        if (is_same(known, &told.hops[i]))
            return true;
    return false;
}

/* What nodes told of packets that nobody can tell apart, in some time. Each told of another packet:
 * so only where the flow begins do times say in which order nodes are. Their values are in already. */
void note_interval(struct int_index *index, struct int_flow *flow, struct told told)
{
    bool has_other = false, has_all = true;

    for (unsigned i = 0; i < told.count; i++)
        has_other |= !is_on_path(flow, &told.hops[i]);
    for (unsigned i = 0; i < flow->hops; i++)
        has_all &= is_reported(told, &flow->path[i]);
    if (flow->paths && has_other && !has_all)
        note_change(index, flow, told);
    if (!flow->paths || has_other) {
        set_path(flow, told);
        for (unsigned i = 0; i < told.count; i++)
            note_interfaces(&flow->path[i], &told.hops[i]);
    }
    flow->paths++;
}

/* What a node told of a packet that cannot be told from others: it may belong to the path, whose
 * order is known later. */
void note_unmatched(struct int_flow *flow, struct told told)
{
    flow->unmatched++;
    for (unsigned i = 0; i < told.count && !flow->paths && flow->hops < PATH_HOPS; i++) {
        bool is_known = false;

        for (unsigned j = 0; j < flow->hops; j++)
            is_known |= flow->path[j].node == told.hops[i].node;
        if (!is_known)
            flow->path[flow->hops++].node = told.hops[i].node;
    }
    add_values(flow, told);
}

/* A packet of whose path parts are missing, for a reason that is known. */
void note_partial(struct int_flow *flow, struct told told)
{
    flow->partial++;
    add_values(flow, told);
}
