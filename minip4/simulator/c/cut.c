/* Partitioning of a network, and repartitioning. Nodes with a delay of 0 between them stay together
 * in a unit. All nodes at which the network may stop for Python form a unit, too. This unit is in
 * the first partition, and the other partitions never advance beyond the first one. All links with
 * a delay below a threshold stay inside units. The threshold is the longest delay for which the
 * units are small enough to be distributed evenly. So only links with a long delay connect
 * different partitions. Each partition grows from one unit: the units with the most links to it are
 * added. */
#include <stdlib.h>

#include "threads.h"

enum {
    NOWHERE = UINT16_MAX /* value of node.place that means any partition */,
    LONGEST_BITS = 40,
    /* number of events during which the work of nodes is measured; doubled after each
     * repartitioning */
    ENOUGH_EVENTS = 1 << 18,
    MOST_DOUBLINGS = 4       /* limit of doublings, since some loads cannot be distributed evenly */
};

struct edge {
    uint32_t from, to; /* node numbers, later unit numbers */
    uint64_t delay_ns;
};

/* Arrays. The index is a node; for data of a unit, it is the first node of the unit. */
struct plan {
    struct virtual *v;
    struct edge *edge;
    uint32_t edges;
    uint32_t *unit;      /* per node: its unit or a node closer to it, see unit_of() */
    uint64_t *weight;    /* per unit: amount of work */
    /* per unit: number of links to the growing partition minus number of links to other nodes */
    int32_t *gain;
    uint16_t *partition; /* per unit: partition, or NOWHERE */
    uint64_t total;
    uint32_t stops;      /* the unit that may stop the network, or VIRTUAL_NONE */
};

static bool may_stop(const struct node *node)
{
    if (node->is_host)
        return node->host.has_application;
    return node->switching.cpu_port != VIRTUAL_NO_CPU || node->switching.may_notify;
}

/* Return the minimum delay of a frame from a node to the next one, in ns. */
static uint64_t delay_of(const struct node *node, uint16_t port)
{
    const struct switching *s = &node->switching;
    return node->is_host || !s->engine ? 0 : s->calls->lookahead(s->engine, port);
}

static void list_edges(struct plan *plan)
{
    const struct virtual *v = plan->v;
    for (uint32_t i = 0; i < v->nodes; i++)
        for (uint16_t port = 0; port < v->node[i]->ports; port++) {
            const struct node *to = v->node[i]->wire[port].to;
            if (to)
                plan->edge[plan->edges++] =
                    (struct edge){i, to->number, delay_of(v->node[i], port)};
        }
}

/* --- units --------------------------------------------------------------------------------------------- */

static uint32_t unit_of(struct plan *plan, uint32_t node)
{
    while (plan->unit[node] != node)
        node = plan->unit[node] = plan->unit[plan->unit[node]];
    return node;
}

static void join(struct plan *plan, uint32_t a, uint32_t b)
{
    a = unit_of(plan, a);
    b = unit_of(plan, b);
    plan->unit[a > b ? a : b] = a > b ? b : a;
}

/* Return the work of a node: the measured work, or an estimate from the number of its wires. */
static uint64_t work_of(const struct node *node, bool is_known)
{
    uint64_t work = 1;
    for (uint16_t port = 0; port < node->ports && !is_known; port++)
        work += node->wire[port].to != NULL;
    return is_known ? work + node->load : work;
}

/* Join nodes with a delay below `delay_ns` to units. Returns the weight of the heaviest unit. */
static uint64_t make_units(struct plan *plan, uint64_t delay_ns)
{
    const struct virtual *v = plan->v;
    uint64_t heaviest = 0;
    plan->stops = VIRTUAL_NONE;
    for (uint32_t i = 0; i < v->nodes; i++)
        plan->unit[i] = i;
    for (uint32_t i = 0; i < plan->edges; i++)
        if (plan->edge[i].delay_ns < delay_ns)
            join(plan, plan->edge[i].from, plan->edge[i].to);
    for (uint32_t i = 0; i < v->nodes; i++)
        if (may_stop(v->node[i])) {
            join(plan, plan->stops == VIRTUAL_NONE ? i : plan->stops, i);
            plan->stops = unit_of(plan, i);
        }
    for (uint32_t i = 0; i < v->nodes; i++)
        plan->weight[i] = 0;
    for (uint32_t i = 0; i < v->nodes; i++) {
        uint64_t *weight = &plan->weight[unit_of(plan, i)];
        *weight += work_of(v->node[i], v->is_load_known);
        heaviest = *weight > heaviest ? *weight : heaviest;
    }
    return heaviest;
}

static void choose_units(struct plan *plan)
{
    const struct virtual *v = plan->v;
    plan->total = 0;
    for (uint32_t i = 0; i < v->nodes; i++)
        plan->total += work_of(v->node[i], v->is_load_known);
    uint64_t share = plan->total / v->partitions;
    for (int bits = LONGEST_BITS; bits >= 0; bits--)
        if (make_units(plan, UINT64_C(1) << bits) <= share + share / 8)
            return; /* without such a threshold, links with any delay may be cut */
}

/* --- assignment of units to partitions ----------------------------------------------------------------- */

static bool is_free(const struct plan *plan, uint32_t unit)
{
    return plan->unit[unit] == unit && plan->partition[unit] == NOWHERE;
}

/* Return the free unit with the highest gain (the first of several), or VIRTUAL_NONE if no unit is
 * free. */
static uint32_t best_unit(const struct plan *plan)
{
    uint32_t best = VIRTUAL_NONE;
    for (uint32_t i = 0; i < plan->v->nodes; i++)
        if (is_free(plan, i) && (best == VIRTUAL_NONE || plan->gain[i] > plan->gain[best]))
            best = i;
    return best;
}

/* Return the first unit of the first partition: the nodes that may stop the network. */
static uint32_t first_unit(const struct plan *plan)
{
    return plan->stops != VIRTUAL_NONE ? plan->stops : best_unit(plan);
}

static void take(struct plan *plan, uint32_t unit, uint16_t partition, const uint32_t *first_edge,
                 const uint32_t *next_edge)
{
    plan->partition[unit] = partition;
    for (uint32_t i = first_edge[unit]; i != VIRTUAL_NONE; i = next_edge[i])
        plan->gain[plan->edge[i].to] += 2;
}

/* Assign the units to partitions; `first_edge` and `next_edge` are lists of the edges of each
 * unit. */
static void grow(struct plan *plan, const uint32_t *first_edge, const uint32_t *next_edge)
{
    const struct virtual *v = plan->v;
    uint64_t left = plan->total;
    for (uint16_t partition = 0; partition < v->partitions; partition++) {
        uint64_t share = left / (v->partitions - partition), has = 0;
        for (uint32_t i = 0; i < v->nodes; i++)
            plan->gain[i] = 0;
        for (uint32_t i = 0; i < plan->edges; i++)
            plan->gain[plan->edge[i].from] -= 1;
        uint32_t unit = partition ? best_unit(plan) : first_unit(plan);
        while (unit != VIRTUAL_NONE && (!has || has + plan->weight[unit] / 2 <= share)) {
            take(plan, unit, partition, first_edge, next_edge);
            has += plan->weight[unit];
            unit = best_unit(plan);
        }
        left -= has < left ? has : left;
    }
    for (uint32_t unit; (unit = best_unit(plan)) != VIRTUAL_NONE;)
        take(plan, unit, (uint16_t)(v->partitions - 1), first_edge, next_edge);
}

/* Partition the network by a plan. Returns false if out of memory. */
static bool share_out(struct plan *plan)
{
    const struct virtual *v = plan->v;
    uint32_t *first_edge = malloc((v->nodes + 1) * sizeof *first_edge);
    uint32_t *next_edge = malloc((plan->edges + 1) * sizeof *next_edge);
    if (first_edge && next_edge) {
        for (uint32_t i = 0; i < v->nodes; i++) {
            first_edge[i] = VIRTUAL_NONE;
            plan->partition[i] = v->node[i]->place;
        }
        if (plan->stops != VIRTUAL_NONE)
            plan->partition[plan->stops] = NOWHERE; /* must be in the first partition */
        for (uint32_t i = 0; i < plan->edges; i++) {
            struct edge *edge = &plan->edge[i];
            edge->from = unit_of(plan, edge->from);
            edge->to = unit_of(plan, edge->to);
            next_edge[i] = first_edge[edge->from];
            first_edge[edge->from] = i;
        }
        grow(plan, first_edge, next_edge);
    }
    bool is_done = first_edge && next_edge;
    free(first_edge);
    free(next_edge);
    return is_done;
}

/* --- move of events to new partitions ------------------------------------------------------------------ */

/* Remove all events from a queue, in order, and add each event to the queue of its new
 * partition. */
static bool move_events(struct virtual *v, struct events *from, size_t queue,
                        struct node *(*node_of)(const struct virtual *, uint32_t))
{
    struct events old = *from;
    bool is_done = true;
    *from = (struct events){0};
    while (old.count) {
        struct node *node = node_of(v, old.heap[0].what);
        struct partition *p = node ? node->partition : v->partition[0];
        is_done &= events_add((struct events *)(void *)((char *)p + queue), old.heap[0]);
        events_remove_first(&old);
    }
    events_free(&old);
    return is_done;
}

static struct node *node_numbered(const struct virtual *v, uint32_t node)
{
    return v->node[node];
}

static struct node *host_of_source(const struct virtual *v, uint32_t source)
{
    return v->source[source].host;
}

static bool move_flights(struct partition *from)
{
    struct flights old = from->flights;
    bool is_done = true;
    from->flights = (struct flights){0};
    while (old.count) {
        uint64_t due_ns = events_next_ns(&old.events);
        struct arrival arrival = flights_take(&old);
        is_done &= flights_add(&arrival.to->partition->flights, &arrival, due_ns);
    }
    flights_free(&old);
    return is_done;
}

/* Return the partition with the earliest frame, among those with frames left (`left`). */
static struct partition *first_to_come(const struct virtual *v, const uint32_t *left)
{
    struct partition *found = NULL;
    uint32_t first = 0;
    for (uint32_t i = 0; i < v->partitions; i++) {
        struct partition *p = v->partition[i];
        if (left[i] && (!found || (int32_t)(p->arrivals[p->arrival_first].order - first) < 0)) {
            found = p;
            first = p->arrivals[p->arrival_first].order;
        }
    }
    return found;
}

/* Move the frames that arrive now, in order of arrival. Applications and controllers are notified
 * in this order. */
static bool move_arrivals(struct virtual *v)
{
    uint32_t left[VIRTUAL_MAX_THREADS];
    bool is_done = true;
    for (uint32_t i = 0; i < v->partitions; i++)
        left[i] = v->partition[i]->arrival_count;
    for (struct partition *from; (from = first_to_come(v, left)); left[from->number]--) {
        struct arrival arrival = partition_take_arrival(from);
        is_done &= partition_put(arrival.to->partition, &arrival, from->now_ns);
    }
    return is_done;
}

/* Move all events to the new partitions. Returns false if out of memory. */
static bool move_all(struct virtual *v)
{
    bool is_done = virtual_sort(v);
    is_done &= move_arrivals(v);
    for (uint32_t i = 0; i < v->partitions; i++) {
        struct partition *p = v->partition[i];
        partition_hand_over(p, v->partition[0]);
        is_done &= move_flights(p);
        is_done &= move_events(v, &p->wakes, offsetof(struct partition, wakes), node_numbered);
        is_done &= move_events(v, &p->sends, offsetof(struct partition, sends), host_of_source);
        is_done &= move_events(v, &p->timers, offsetof(struct partition, timers), tcp_host);
    }
    return is_done;
}

/* Set the destination of each wire and the minimum delays between partitions. */
static bool connect_partitions(struct virtual *v)
{
    for (uint32_t i = 0; i < v->partitions * v->partitions; i++)
        v->threads->lookahead_ns[i] = UINT64_MAX;
    for (uint32_t i = 0; i < v->nodes; i++)
        for (uint16_t port = 0; port < v->node[i]->ports; port++) {
            struct wire *wire = &v->node[i]->wire[port];
            uint16_t from = v->node[i]->partition->number;
            wire->partition = wire->to ? wire->to->partition->number : from;
            if (wire->partition == from)
                continue;
            uint64_t delay_ns = delay_of(v->node[i], port);
            uint64_t *lookahead_ns = lookahead_between(v, from, wire->partition);
            struct channel **channel = &v->threads->channel[from * v->partitions + wire->partition];
            *lookahead_ns = delay_ns < *lookahead_ns ? delay_ns : *lookahead_ns;
            if (!*channel && !(*channel = memory_take(sizeof **channel)))
                return false;
        }
    for (uint32_t i = 1; i < v->partitions && v->partition[0]->may_stop; i++)
        /* the first partition may stop the network at any time, so no other partition advances
         * beyond it */
        *lookahead_between(v, 0, i) = 0;
    return true;
}

/* Apply a plan. Returns false if out of memory. */
static bool apply(struct plan *plan)
{
    struct virtual *v = plan->v;
    bool is_used[VIRTUAL_MAX_THREADS] = {false};
    uint32_t used = 0;
    for (uint32_t i = 0; i < v->nodes; i++) {
        uint16_t number = plan->partition[unit_of(plan, i)];
        used += !is_used[number];
        is_used[number] = true;
    }
    v->is_cut = used > 1;
    for (uint32_t i = 0; i < v->partitions; i++) {
        v->partition[i]->may_stop = false;
        v->partition[i]->nodes = 0;
        packet_pool_match(v->partition[i]->pool, v->partition[0]->pool);
    }
    for (uint32_t i = 0; i < v->nodes; i++) {
        struct node *node = v->node[i];
        struct partition *p = v->partition[v->is_cut ? plan->partition[unit_of(plan, i)] : 0];
        node->partition = p;
        node->load /= 2; /* work before the last partitioning has a smaller weight */
        p->nodes++;
        p->may_stop |= may_stop(node);
        if (!node->is_host && node->switching.engine)
            node->switching.calls->move_pool(node->switching.engine, p->pool);
    }
    return connect_partitions(v) && move_all(v);
}

bool virtual_cut(struct virtual *v)
{
    uint32_t edges = 0;
    for (uint32_t i = 0; i < v->nodes; i++)
        edges += v->node[i]->ports;
    struct plan plan = {
        .v = v,
        .edge = malloc((edges + 1) * sizeof *plan.edge),
        .unit = malloc((v->nodes + 1) * sizeof *plan.unit),
        .weight = malloc((v->nodes + 1) * sizeof *plan.weight),
        .gain = malloc((v->nodes + 1) * sizeof *plan.gain),
        .partition = malloc((v->nodes + 1) * sizeof *plan.partition),
    };
    bool is_done = plan.edge && plan.unit && plan.weight && plan.gain && plan.partition;
    if (is_done) {
        list_edges(&plan);
        choose_units(&plan);
        is_done = share_out(&plan) && apply(&plan);
    }
    free(plan.edge);
    free(plan.unit);
    free(plan.weight);
    free(plan.gain);
    free(plan.partition);
    v->is_stale = false;
    for (uint32_t i = 0; i < v->partitions; i++)
        v->partition[i]->events_before = v->partition[i]->event_count;
    return is_done;
}

bool virtual_is_nearer(const struct virtual *v, const struct node *node)
{
    for (uint16_t port = 0; v->is_cut && port < node->ports; port++) {
        const struct wire *wire = &node->wire[port];
        uint32_t from = node->partition->number;
        if (wire->to && wire->partition != from &&
            delay_of(node, port) < *lookahead_between(v, from, wire->partition))
            return true;
    }
    return false;
}

bool virtual_is_uneven(const struct virtual *v)
{
    uint64_t all = 0, most = 0;
    for (uint32_t i = 0; i < v->partitions; i++) {
        uint64_t events = v->partition[i]->event_count - v->partition[i]->events_before;
        all += events;
        most = events > most ? events : most;
    }
    uint64_t enough = (uint64_t)ENOUGH_EVENTS << time_least(v->cuts_for_load, MOST_DOUBLINGS);
    return v->is_cut && all > enough && most * v->partitions > all + all / 16;
}
