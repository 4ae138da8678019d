/* Paths of flows, and statistics of hops and links. They are computed from reported packets. */
#include "index_internal.h"

static void add_value(struct int_statistics *statistics, int64_t value)
{
    if (!statistics->count || value < statistics->min)
        statistics->min = value;
    if (!statistics->count || value > statistics->max)
        statistics->max = value;
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

/* Stores the interfaces of a hop. An interface that an earlier packet of the path has reported is
 * not replaced. */
static void note_interfaces(struct int_path_hop *to, const struct int_hop *hop)
{
    if (hop->has & BIT_INTERFACES && !to->ingress && !to->egress) {
        to->ingress = hop->ingress;
        to->egress = hop->egress;
    }
}

/* Returns whether a hop is the same as a known one: same node and interfaces. An unknown interface
 * is equal to any other. */
static bool is_same(const struct int_path_hop *known, const struct int_hop *hop)
{
    return known->node == hop->node &&
           (!(hop->has & BIT_INTERFACES) || (!known->ingress && !known->egress) ||
            (known->ingress == hop->ingress && known->egress == hop->egress));
}

/* Returns whether the path contains the reported hops in this order. The path may have more
 * hops. */
static bool is_part_of_path(const struct int_flow *flow, struct path_report reported)
{
    unsigned at = 0;

    for (unsigned i = 0; i < reported.count; i++, at++) {
        while (at < flow->hops && !is_same(&flow->path[at], &reported.hops[i]))
            at++;
        if (at == flow->hops)
            return false;
    }
    return true;
}

static bool has_path_in_it(const struct int_flow *flow, struct path_report reported)
{
    unsigned at = 0;

    for (unsigned i = 0; i < flow->hops; i++, at++) {
        while (at < reported.count && !is_same(&flow->path[i], &reported.hops[at]))
            at++;
        if (at == reported.count)
            return false;
    }
    return true;
}

/* Replaces the path. If a node is on the old and on the new path, its statistics remain. If a link
 * is on both paths, the statistics of the link remain, too. */
static void set_path(struct int_flow *flow, struct path_report reported)
{
    struct int_path_hop before[PATH_HOPS];
    unsigned before_hops = flow->hops;

    memcpy(before, flow->path, sizeof before);
    for (unsigned i = 0; i < reported.count; i++) {
        struct int_path_hop *hop = &flow->path[i];
        bool is_same_link = false;

        *hop = (struct int_path_hop){.node = reported.hops[i].node};
        for (unsigned j = 0; j < before_hops; j++) {
            if (before[j].node != hop->node)
                continue;
            *hop = before[j];
            is_same_link = i && j && before[j - 1].node == reported.hops[i - 1].node;
        }
        if (!is_same_link)
            hop->link_ns = (struct int_statistics){0};
        hop->ingress = hop->egress = 0;
    }
    flow->hops = (uint16_t)reported.count;
}

static void note_change(struct int_index *index, struct int_flow *flow, struct path_report reported)
{
    struct int_change *change = &index->changes[index->changes_used];

    flow->changes++;
    flow->changed_ns = reported.time_ns;
    if (index->changes_used == index->config.events) {
        index->counters.changes_dropped++;
        return;
    }
    index->changes_used++;
    *change = (struct int_change){.time_ns = reported.time_ns, .flow = flow->flow,
                                  .before_hops = flow->hops, .after_hops = (uint16_t)reported.count};
    for (unsigned i = 0; i < flow->hops; i++)
        change->before[i] = flow->path[i].node;
    for (unsigned i = 0; i < reported.count; i++)
        change->after[i] = reported.hops[i].node;
}

/* Adds the values of reported hops to the path. The latency of a link is computed from the times of
 * the nodes at both ends. */
static void add_values(struct int_flow *flow, struct path_report reported)
{
    unsigned at = 0;

    for (unsigned i = 0; i < reported.count; i++) {
        const struct int_hop *hop = &reported.hops[i], *last = i ? hop - 1 : hop;
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

/* Compares the reported hops with the known path. If the path is different or shorter, it is
 * replaced. */
static void take_path(struct int_index *index, struct int_flow *flow, struct path_report reported)
{
    bool is_same_path =
        is_part_of_path(flow, reported) && (reported.count == flow->hops || !reported.is_whole);

    if (flow->paths && !is_same_path && (reported.is_whole || !has_path_in_it(flow, reported)))
        note_change(index, flow, reported);
    if (!flow->paths || !is_same_path)
        set_path(flow, reported);
    flow->paths++;
}

/* Adds a packet that was reported by all known nodes of its path. */
void note_path(struct int_index *index, struct int_flow *flow, struct path_report reported)
{
    if (reported.count > PATH_HOPS) {
        index->counters.long_paths++;
        reported.count = PATH_HOPS;
    }
    take_path(index, flow, reported);
    add_values(flow, reported);
}

static bool is_on_path(const struct int_flow *flow, const struct int_hop *hop)
{
    for (unsigned i = 0; i < flow->hops; i++)
        if (is_same(&flow->path[i], hop))
            return true;
    return false;
}

static bool is_reported(struct path_report reported, const struct int_path_hop *known)
{
    for (unsigned i = 0; i < reported.count; i++)
        if (is_same(known, &reported.hops[i]))
            return true;
    return false;
}

/* Adds the reports of one interval, for packets that cannot be distinguished. The reports are from
 * different packets, so their times show the order of the nodes only at the start of the flow. The
 * values in these reports have already been added. */
void note_interval(struct int_index *index, struct int_flow *flow, struct path_report reported)
{
    bool has_other = false, has_all = true;

    for (unsigned i = 0; i < reported.count; i++)
        has_other |= !is_on_path(flow, &reported.hops[i]);
    for (unsigned i = 0; i < flow->hops; i++)
        has_all &= is_reported(reported, &flow->path[i]);
    if (flow->paths && has_other && !has_all)
        note_change(index, flow, reported);
    if (!flow->paths || has_other) {
        set_path(flow, reported);
        for (unsigned i = 0; i < reported.count; i++)
            note_interfaces(&flow->path[i], &reported.hops[i]);
    }
    flow->paths++;
}

/* Adds a report of an unknown packet. The reporting node may be on the path, but its position is
 * not yet known. */
void note_unmatched(struct int_flow *flow, struct path_report reported)
{
    flow->unmatched++;
    for (unsigned i = 0; i < reported.count && !flow->paths && flow->hops < PATH_HOPS; i++) {
        bool is_known = false;

        for (unsigned j = 0; j < flow->hops; j++)
            is_known |= flow->path[j].node == reported.hops[i].node;
        if (!is_known)
            flow->path[flow->hops++].node = reported.hops[i].node;
    }
    add_values(flow, reported);
}

/* Adds a packet of which only a part of the path is reported, for a known reason. */
void note_partial(struct int_flow *flow, struct path_report reported)
{
    flow->partial++;
    add_values(flow, reported);
}
