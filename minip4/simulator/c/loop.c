/* The loop that runs a virtual network's events: frames that arrive, switches with work, sources, timers. */
#include <stdlib.h>
#include <string.h>

#include "virtual_internal.h"

/* --- frames on their way ---------------------------------------------------------------------- */

static bool grow(void *array, size_t size)
{
    void **start = array, *made = realloc(*start, size);
    if (made)
        *start = made;
    return made != NULL;
}

static bool more_arrivals(struct virtual *v)
{
    uint32_t room = v->arrival_room;
    if (!grow(&v->arrivals, 2 * (size_t)room * sizeof *v->arrivals))
        return false;
    /* What had come round to the start goes on behind the old end. */
    memcpy(v->arrivals + room, v->arrivals, v->arrival_first * sizeof *v->arrivals);
    v->arrival_room = 2 * room;
    return true;
}

static bool more_flights(struct virtual *v)
{
    uint32_t room = v->flight_room ? 2 * v->flight_room : 64;
    if (!grow(&v->flight, room * sizeof *v->flight) ||
        !grow(&v->free_flight, room * sizeof *v->free_flight))
        return false;
    for (uint32_t i = v->flight_room; i < room; i++)
        v->free_flight[i] = i;
    v->flight_room = room;
    return true;
}

static void lose(struct virtual *v, struct packet *packet)
{
    v->is_short = true;
    packet_give(v->pool, packet);
}

static void put(struct virtual *v, struct packet *packet, struct node *to, uint16_t port,
                uint64_t due_ns)
{
    if (due_ns <= v->now_ns) {
        if (v->arrival_count == v->arrival_room && !more_arrivals(v)) {
            lose(v, packet);
            return;
        }
        v->arrivals[(v->arrival_first + v->arrival_count++) & (v->arrival_room - 1)] =
            (struct arrival){packet, to, port, 0};
        return;
    }
    if (v->flight_count == v->flight_room && !more_flights(v)) {
        lose(v, packet);
        return;
    }
    uint32_t place = v->free_flight[v->flight_count];
    __builtin_prefetch(to);
    if (!events_add(&v->flights, (struct event){due_ns, v->flight_order++, place})) {
        lose(v, packet);
        return;
    }
    v->flight[place] = (struct arrival){packet, to, port, 0};
    v->flight_count++;
}

void virtual_put_on_wire(struct node *from, uint16_t port, struct packet *packet, uint64_t due_ns)
{
    const struct wire *wire = port < from->ports ? &from->wire[port] : NULL;
    if (wire && wire->to)
        put(from->v, packet, wire->to, wire->to_port, due_ns);
    else
        packet_give(from->v->pool, packet); /* a host without a wire; switches' ports are down then */
}

static bool flies_from(const struct virtual *v, const struct event *event, const struct wire *wire)
{
    const struct arrival *flight = &v->flight[event->what];
    return flight->to == wire->to && flight->port == wire->to_port;
}

void virtual_flying(const struct virtual *v, uint32_t node, uint16_t port, uint64_t *packets,
                    uint64_t *bytes)
{
    const struct wire *wire = &v->node[node]->wire[port];
    *packets = *bytes = 0;
    for (uint32_t i = 0; wire->to && i < v->flights.count; i++)
        if (flies_from(v, &v->flights.heap[i], wire)) {
            ++*packets;
            *bytes += v->flight[v->flights.heap[i].what].packet->length;
        }
}

/* --- what engines call ------------------------------------------------------------------------ */

static void want_control(struct node *node)
{
    struct switching *s = &node->switching;
    if (s->wants_control)
        return;
    s->wants_control = true;
    s->next_control = NULL;
    *node->v->end_control = node;
    node->v->end_control = &s->next_control;
}

/* Where the packet's next port is, or was, noted. */
static uint16_t *trail_at(const struct virtual *v, const struct packet *packet)
{
    return &v->source[packet->source].trail[packet->hops % TRAIL_HOPS];
}

static void transmit(void *user, uint16_t port, struct packet *packet, uint64_t due_ns)
{
    struct node *node = user;
    *trail_at(node->v, packet) = port;
    packet->hops++;
    if (port == node->switching.cpu_port)
        put(node->v, packet, node, TO_CONTROLLER, due_ns);
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
        return; /* it is looked at in time, or has nothing to do */
    s->queued_ns = due_ns;
    if (!events_add(&node->v->wakes, (struct event){due_ns, node->number, node->number}))
        node->v->is_short = true;
}

/* NULL: memory is short. */
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
                        const struct virtual_calls *calls)
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
    wake_at(node, node->switching.calls->advance(node->switching.engine, v->now_ns));
}

/* --- the loop --------------------------------------------------------------------------------- */

void virtual_arrive(struct virtual *v, const struct arrival *arrival)
{
    struct node *node = arrival->to;
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
        packet_give(v->pool, arrival->packet);
        return;
    }
    packet_make_room(arrival->packet);
    s->calls->receive(s->engine, arrival->port, arrival->packet, v->now_ns, v->now_ns);
    wake_at(node, s->calls->advance(s->engine, v->now_ns));
}

static void land_first(struct virtual *v)
{
    uint32_t place = v->flights.heap[0].what;
    struct arrival arrival = v->flight[place];
    v->free_flight[--v->flight_count] = place;
    events_remove_first(&v->flights);
    virtual_arrive(v, &arrival);
}

static void wake_first(struct virtual *v)
{
    struct node *node = v->node[v->wakes.heap[0].what];
    struct switching *s = &node->switching;
    events_remove_first(&v->wakes);
    s->queued_ns = UINT64_MAX;
    wake_at(node, s->calls->advance(s->engine, v->now_ns));
}

static void send_first(struct virtual *v)
{
    uint32_t number = v->sends.heap[0].what;
    uint64_t due_ns = source_wake(v, number);
    v->source_fetched[number] = 0;
    if (due_ns == UINT64_MAX)
        events_remove_first(&v->sends);
    else
        events_replace_first(&v->sends, (struct event){due_ns, number, number});
}

static void time_first(struct virtual *v)
{
    struct tcp *t = tcp_woken(v, v->timers.heap);
    events_remove_first(&v->timers);
    tcp_wake(t);
}

enum { STEPS = 2, SOURCE_STEPS = 3 };

/* Fetches what a node will need for a frame that comes in at a port, and probably leaves by `out`; in
 * steps: each reads what the one before has fetched. */
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

/* The same for what a source sends next: itself, its host, and where the host's wire ends. */
static void fetch_source(const struct virtual *v, unsigned step, uint32_t number)
{
    const struct source *source = &v->source[number];
    if (step == 0) {
        __builtin_prefetch(source, 1);
        __builtin_prefetch(source->head, 1);
        __builtin_prefetch(source->trail, 1);
    } else if (step == 1) {
        __builtin_prefetch(source->host, 1);
    } else if (step == 2) {
        __builtin_prefetch(source->host->wire->to);
    } else if (source->host->wire->to) {
        fetch(step - SOURCE_STEPS, source->host->wire->to, source->host->wire->to_port,
              source->trail[0]);
    }
}

/* What is due soon is far apart in memory: so it is fetched while what comes before it is done. */
static void look_ahead(struct virtual *v)
{
    struct events *flights = &v->flights, *sends = &v->sends;
    for (uint32_t i = 0; i < EVENTS_SOON && i < flights->count; i++) {
        struct arrival *flight = &v->flight[flights->heap[i].what];
        if (flight->fetched < STEPS)
            fetch(flight->fetched++, flight->to, flight->port, *trail_at(v, flight->packet));
    }
    for (uint32_t i = 0; i < EVENTS_SOON && i < sends->count; i++) {
        uint32_t number = sends->heap[i].what;
        if (v->source_fetched[number] < SOURCE_STEPS + STEPS)
            fetch_source(v, v->source_fetched[number]++, number);
    }
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_ns(struct virtual *v)
{
    const struct event *wake = v->wakes.heap;
    while (v->wakes.count && wake->time_ns != v->node[wake->what]->switching.queued_ns)
        events_remove_first(&v->wakes); /* it was woken before */
    while (v->timers.count && !tcp_woken(v, v->timers.heap))
        events_remove_first(&v->timers);
    return earliest(earliest(events_next_ns(&v->flights), events_next_ns(&v->wakes)),
                    earliest(events_next_ns(&v->sends), events_next_ns(&v->timers)));
}

/* Does the first event, which is due at `due_ns`. */
static void do_first(struct virtual *v, uint64_t due_ns)
{
    v->now_ns = due_ns > v->now_ns ? due_ns : v->now_ns;
    if (events_next_ns(&v->flights) == due_ns)
        land_first(v);
    else if (events_next_ns(&v->wakes) == due_ns)
        wake_first(v);
    else if (events_next_ns(&v->sends) == due_ns)
        send_first(v);
    else
        time_first(v);
}

enum virtual_stop virtual_run(struct virtual *v, uint64_t until_ns, uint64_t max_events)
{
    uint64_t last = v->event_count + max_events;
    while (v->event_count < last) {
        if (v->is_short)
            return VIRTUAL_SHORT;
        if (v->arrival_count) {
            struct arrival arrival = v->arrivals[v->arrival_first];
            v->arrival_first = (v->arrival_first + 1) & (v->arrival_room - 1);
            v->arrival_count--;
            v->event_count++;
            virtual_arrive(v, &arrival);
            continue;
        }
        if (v->first_control)
            return VIRTUAL_CONTROL;
        if (v->first_inbox)
            return VIRTUAL_INBOX;
        uint64_t due_ns = next_ns(v);
        if (due_ns > until_ns || due_ns == UINT64_MAX) {
            if (until_ns > v->now_ns && until_ns != UINT64_MAX)
                v->now_ns = until_ns;
            return VIRTUAL_REACHED;
        }
        look_ahead(v);
        do_first(v, due_ns);
        v->event_count++;
    }
    return v->is_short ? VIRTUAL_SHORT : VIRTUAL_PAUSED;
}

uint64_t virtual_next(struct virtual *v)
{
    return v->arrival_count ? v->now_ns : next_ns(v);
}
