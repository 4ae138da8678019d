/* The event loop of a virtual network: arrivals of frames, switches with work, sources, and
 * timers. */
#include <stdlib.h>
#include <string.h>

#include "threads.h"

/* --- frames in flight ------------------------------------------------------------------------- */

static bool more_arrivals(struct partition *p)
{
    uint32_t room = p->arrival_room;
    struct arrival *grown = realloc(p->arrivals, 2 * (size_t)room * sizeof *grown);
    if (!grown)
        return false;
    /* Move the entries that wrapped around to the end of the old ring. */
    memcpy(grown + room, grown, p->arrival_first * sizeof *grown);
    p->arrivals = grown;
    p->arrival_room = 2 * room;
    return true;
}

bool partition_put(struct partition *p, const struct arrival *arrival, uint64_t due_ns)
{
    if (due_ns > p->now_ns) {
        __builtin_prefetch(arrival->to);
        return flights_add(&p->flights, arrival, due_ns);
    }
    if (p->arrival_count == p->arrival_room && !more_arrivals(p))
        return false;
    struct arrival *last =
        &p->arrivals[(p->arrival_first + p->arrival_count++) & (p->arrival_room - 1)];
    *last = *arrival;
    if (!p->v->is_running)
        last->order = p->v->came++;
    return true;
}

static void send_to(struct node *from, struct node *to, uint16_t port, struct packet *packet,
                    uint64_t due_ns)
{
    struct partition *p = from->partition;
    if (partition_put(p, &(struct arrival){packet, to, p->now_ns, port, 0, 0}, due_ns))
        return;
    p->is_short = true;
    packet_give(p->pool, packet);
}

void virtual_put_on_wire(struct node *from, uint16_t port, struct packet *packet, uint64_t due_ns)
{
    const struct wire *wire = port < from->ports ? &from->wire[port] : NULL;
    struct partition *p = from->partition;
    if (!wire || !wire->to)
        /* The host has no wire. (Switches do not send here, because their unconnected ports are
         * down.) */
        packet_give(p->pool, packet);
    else if (wire->partition == p->number)
        send_to(from, wire->to, wire->to_port, packet, due_ns);
    else
        partition_send(p, wire->partition,
                       &(struct arrival){packet, wire->to, p->now_ns, wire->to_port, 0, 0}, due_ns);
}

/* Return the packet that is on the wire, or NULL if the event belongs to another wire. */
static const struct packet *flies_on(const struct wire *wire, const struct flights *flights,
                                     uint32_t event)
{
    const struct arrival *flight = &flights->flight[flights->events.heap[event].what];
    return flight->to == wire->to && flight->port == wire->to_port ? flight->packet : NULL;
}

void virtual_flying(const struct virtual *v, uint32_t node, uint16_t port, uint64_t *packets,
                    uint64_t *bytes)
{
    const struct wire *wire = &v->node[node]->wire[port];
    *packets = *bytes = 0;
    if (!wire->to)
        return;
    const struct flights *flights = &wire->to->partition->flights;
    for (uint32_t i = 0; i < flights->count; i++) {
        const struct packet *packet = flies_on(wire, flights, i);
        *packets += packet != NULL;
        *bytes += packet ? packet->length : 0;
    }
}

/* --- callbacks of engines --------------------------------------------------------------------- */

static void want_control(struct node *node)
{
    struct switching *s = &node->switching;
    if (s->wants_control)
        return;
    s->wants_control = true;
    s->next_control = NULL;
    *node->partition->end_control = node;
    node->partition->end_control = &s->next_control;
}

/* Return the location where the packet's next egress port is, or will be, recorded. */
static uint16_t *trail_at(const struct partition *p, const struct packet *packet)
{
    return &p->trail[packet->source].port[packet->hops % TRAIL_HOPS];
}

static void transmit(void *user, uint16_t port, struct packet *packet, uint64_t due_ns)
{
    struct node *node = user;
    *trail_at(node->partition, packet) = port;
    packet->hops++;
    if (port == node->switching.cpu_port)
        send_to(node, node, TO_CONTROLLER, packet, due_ns);
    else
        virtual_put_on_wire(node, port, packet, due_ns);
}

static void tap(void *user, enum engine_tap where, uint16_t port, const struct packet *packet,
                uint64_t now_ns)
{
    struct node *node = user;
    struct capture *capture = port < node->ports ? node->port[port].captured[where] : NULL;
    if (capture)
        capture_frame(capture, now_ns, packet->data, packet->length);
}

static void link_drop(void *user, uint16_t port, uint64_t now_ns, const uint8_t *frame,
                      uint32_t length)
{
    struct node *node = user;
    struct capture *capture = port < node->ports ? node->port[port].captured[2] : NULL;
    if (capture)
        capture_frame(capture, now_ns, frame, length);
}

static void notify(void *user)
{
    want_control(user);
}

/* --- switches --------------------------------------------------------------------------------- */

static void wake_at(struct node *node, uint64_t due_ns)
{
    struct switching *s = &node->switching;
    if (due_ns >= s->queued_ns)
        return; /* an earlier wake-up is queued, or the switch has no work */
    s->queued_ns = due_ns;
    if (!events_add(&node->partition->wakes, (struct event){due_ns, node->number, node->number}))
        node->partition->is_short = true;
}

/* Return the network's copy of the functions of an engine. Returns NULL if out of memory. */
static const struct virtual_calls *keep_calls(struct virtual *v, const struct virtual_calls *calls)
{
    struct program_calls *of_program = v->programs;
    while (of_program && memcmp(&of_program->calls, calls, sizeof *calls) != 0)
        of_program = of_program->next;
    if (of_program)
        return &of_program->calls;
    if (!(of_program = malloc(sizeof *of_program)))
        return NULL;
    *of_program = (struct program_calls){v->programs, *calls};
    v->programs = of_program;
    return &of_program->calls;
}

bool virtual_set_engine(struct virtual *v, uint32_t number, struct engine *engine,
                        const struct virtual_calls *calls, bool may_notify)
{
    struct node *node = v->node[number];
    struct switching *s = &node->switching;
    const struct virtual_calls *kept = keep_calls(v, calls);
    if (!kept)
        return false;
    struct engine_driver driver = {
        .user = node, .keeps_flying = true, .transmit = transmit, .notify = notify};
    if (node->is_captured) {
        driver.tap = tap;
        driver.link_drop = link_drop;
    }
    s->engine = engine;
    s->may_notify = may_notify;
    v->is_stale = true;
    s->calls = kept;
    calls->set_driver(engine, &driver);
    for (uint16_t port = 0; port < node->ports; port++)
        if (node->wire[port].to)
            calls->set_port(engine, port, true);
    if (s->cpu_port != VIRTUAL_NO_CPU)
        calls->set_port(engine, s->cpu_port, true);
    virtual_refresh(v, number);
    return true;
}

void virtual_refresh(struct virtual *v, uint32_t number)
{
    struct node *node = v->node[number];
    v->is_stale |= virtual_is_nearer(v, node);
    wake_at(node, node->switching.calls->advance(node->switching.engine, v->now_ns));
}

/* --- the loop --------------------------------------------------------------------------------- */

void virtual_arrive(struct partition *p, const struct arrival *arrival)
{
    struct node *node = arrival->to;
    if (p->v->threads)
        node->load++;
    if (node->is_host) {
        host_receive(node, arrival->packet);
        return;
    }
    struct switching *s = &node->switching;
    if (arrival->port == TO_CONTROLLER) {
        arrival->packet->next = NULL;
        *s->to_cpu.end = arrival->packet;
        s->to_cpu.end = &arrival->packet->next;
        want_control(node);
        return;
    }
    if (arrival->packet->length > PACKET_MAX_FRAME) {
        node->port[arrival->port].too_long++;
        packet_give(p->pool, arrival->packet);
        return;
    }
    packet_make_room(arrival->packet);
    s->calls->receive(s->engine, arrival->port, arrival->packet, p->now_ns, p->now_ns);
    wake_at(node, s->calls->advance(s->engine, p->now_ns));
}

static void land_first(struct partition *p)
{
    struct arrival arrival = flights_take(&p->flights);
    virtual_arrive(p, &arrival);
}

static void wake_first(struct partition *p)
{
    struct node *node = p->v->node[p->wakes.heap[0].what];
    struct switching *s = &node->switching;
    events_remove_first(&p->wakes);
    s->queued_ns = UINT64_MAX;
    wake_at(node, s->calls->advance(s->engine, p->now_ns));
}

static void send_first(struct partition *p)
{
    uint32_t number = p->sends.heap[0].what;
    uint64_t due_ns = source_wake(p, number);
    if (p->v->threads)
        p->v->source[number].host->load++;
    p->source_fetched[number] = 0;
    if (due_ns == UINT64_MAX)
        events_remove_first(&p->sends);
    else
        events_replace_first(&p->sends, (struct event){due_ns, number, number});
}

static void time_first(struct partition *p)
{
    struct tcp *t = tcp_woken(p->v, p->timers.heap);
    events_remove_first(&p->timers);
    tcp_wake(t);
}

enum { STEPS = 2, SOURCE_STEPS = 3 };

/* Prefetch the data of a node for a frame that is received at `port` and will probably leave at
 * port `out`. Each step reads data that the previous step has prefetched. */
static void fetch(unsigned step, const struct node *node, uint16_t port, uint16_t out)
{
    const struct switching *s = &node->switching;
    if (node->is_host) {
        __builtin_prefetch((const char *)node + CACHE_LINE);
    } else if (step == 0) {
        s->calls->prefetch(s->engine, port);
    } else {
        if (out < node->ports)
            __builtin_prefetch(&node->wire[out]);
        s->calls->prefetch_more(s->engine, out);
    }
}

/* Prefetch the data for the next packet of a source: the source, its host, and the other end of the
 * host's wire. */
static void fetch_source(const struct partition *p, unsigned step, uint32_t number)
{
    const struct source *source = &p->v->source[number];
    if (step == 0) {
        __builtin_prefetch(source, 1);
        __builtin_prefetch(source->head, 1);
        __builtin_prefetch(&p->trail[number], 1);
    } else if (step == 1) {
        __builtin_prefetch(source->host, 1);
    } else if (step == 2) {
        __builtin_prefetch(source->host->wire->to);
    } else if (source->host->wire->to) {
        fetch(step - SOURCE_STEPS, source->host->wire->to, source->host->wire->to_port,
              p->trail[number].port[0]);
    }
}

/* Events that are due soon are scattered in memory. Prefetch their data while earlier events are
 * processed. */
static void look_ahead(struct partition *p)
{
    struct flights *flights = &p->flights;
    struct events *sends = &p->sends;
    for (uint32_t i = 0; i < EVENTS_SOON && i < flights->count; i++) {
        struct arrival *flight = &flights->flight[flights->events.heap[i].what];
        if (flight->fetched < STEPS)
            fetch(flight->fetched++, flight->to, flight->port, *trail_at(p, flight->packet));
    }
    for (uint32_t i = 0; i < EVENTS_SOON && i < sends->count; i++) {
        uint32_t number = sends->heap[i].what;
        if (p->source_fetched[number] < SOURCE_STEPS + STEPS)
            fetch_source(p, p->source_fetched[number]++, number);
    }
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t partition_next_ns(struct partition *p)
{
    const struct event *wake = p->wakes.heap;
    while (p->wakes.count && wake->time_ns != p->v->node[wake->what]->switching.queued_ns)
        events_remove_first(&p->wakes); /* the switch was already woken before this time */
    while (p->timers.count && !tcp_woken(p->v, p->timers.heap))
        events_remove_first(&p->timers);
    return earliest(earliest(events_next_ns(&p->flights.events), events_next_ns(&p->wakes)),
                    earliest(events_next_ns(&p->sends), events_next_ns(&p->timers)));
}

/* Process the first event, which is due at `due_ns`. */
static void do_first(struct partition *p, uint64_t due_ns)
{
    p->now_ns = due_ns > p->now_ns ? due_ns : p->now_ns;
    atomic_store_explicit(&p->clock_ns, due_ns, memory_order_release);
    if (p->may_stop && p->v->is_cut)
        p->moment = partition_moment(p);
    if (events_next_ns(&p->flights.events) == due_ns)
        land_first(p);
    else if (events_next_ns(&p->wakes) == due_ns)
        wake_first(p);
    else if (events_next_ns(&p->sends) == due_ns)
        send_first(p);
    else
        time_first(p);
}

enum virtual_stop partition_run(struct partition *p, uint64_t until_ns, uint64_t last)
{
    while (p->event_count < last) {
        if (p->is_short)
            return VIRTUAL_SHORT;
        if (p->arrival_count) {
            struct arrival arrival = partition_take_arrival(p);
            p->event_count++;
            virtual_arrive(p, &arrival);
            continue;
        }
        enum virtual_stop stop = partition_stop(p);
        if (stop != VIRTUAL_REACHED)
            return stop;
        uint64_t due_ns = partition_next_ns(p);
        if (due_ns > until_ns || due_ns == UINT64_MAX)
            return VIRTUAL_REACHED;
        look_ahead(p);
        do_first(p, due_ns);
        p->event_count++;
    }
    return p->is_short ? VIRTUAL_SHORT : VIRTUAL_PAUSED;
}
