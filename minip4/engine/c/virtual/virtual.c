/* The virtual network: its nodes and wires, and the loop that runs its events. */
#include "virtual_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ARRIVALS = 256 };

#define MAX_PACKETS (UINT64_C(1) << 32) /* memory is the limit, not the pool */

bool virtual_room(void *array, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return true;
    uint32_t wanted = *room ? 2 * *room : 16;
    void **start = array, *grown = realloc(*start, wanted * size);
    if (!grown)
        return false;
    *start = grown;
    *room = wanted;
    return true;
}

struct virtual *virtual_create(uint32_t phv_size, uint64_t now_ns)
{
    struct virtual *v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->now_ns = now_ns;
    v->end_control = &v->first_control;
    v->arrival_room = FIRST_ARRIVALS;
    v->arrivals = malloc(FIRST_ARRIVALS * sizeof *v->arrivals);
    v->pool = packet_pool_create(phv_size);
    v->events = events_create();
    if (!v->arrivals || !v->pool || !v->events) {
        virtual_destroy(v, NULL, 0);
        return NULL;
    }
    packet_pool_set_limit(v->pool, MAX_PACKETS);
    return v;
}

static void node_free(struct node *node)
{
    if (node->is_host)
        host_free(&node->host);
    free(node->wire);
    free(node);
}

int virtual_destroy(struct virtual *v, char *error, size_t error_size)
{
    int result = v->captures ? capture_set_close(v->captures, error, error_size) : 0;
    for (uint32_t i = 0; i < v->sources; i++)
        source_free(v->source[i]);
    for (uint32_t i = 0; i < v->nodes; i++)
        node_free(v->node[i]);
    free(v->source);
    free(v->node);
    free(v->element);
    free(v->arrivals);
    events_destroy(v->events);
    packet_pool_destroy(v->pool);
    free(v);
    return result;
}

struct packet_pool *virtual_pool(struct virtual *v)
{
    return v->pool;
}

uint64_t virtual_now(const struct virtual *v)
{
    return v->now_ns;
}

uint64_t virtual_events(const struct virtual *v)
{
    return v->event_count;
}

/* --- nodes and wires -------------------------------------------------------------------------- */

uint32_t virtual_add_element(struct virtual *v, struct node *node, struct source *source)
{
    if (!virtual_room(&v->element, v->elements, &v->element_room, sizeof *v->element))
        return VIRTUAL_NONE;
    uint32_t number = events_add(v->events);
    if (number == UINT32_MAX)
        return VIRTUAL_NONE;
    v->element[number] = (struct element){node, source};
    v->elements = number + 1;
    return number;
}

static struct node *add_node(struct virtual *v, bool is_host)
{
    struct node *node = calloc(1, sizeof *node);
    if (!node || !virtual_room(&v->node, v->nodes, &v->node_room, sizeof *v->node)) {
        free(node);
        return NULL;
    }
    node->v = v;
    node->number = v->nodes;
    node->is_host = is_host;
    v->node[v->nodes++] = node;
    return node;
}

uint32_t virtual_add_switch(struct virtual *v, uint16_t cpu_port)
{
    struct node *node = add_node(v, false);
    if (!node)
        return VIRTUAL_NONE;
    struct switching *s = &node->switching;
    s->cpu_port = cpu_port;
    s->to_cpu.end = &s->to_cpu.first;
    s->element = virtual_add_element(v, node, NULL);
    return s->element == VIRTUAL_NONE ? VIRTUAL_NONE : v->nodes - 1;
}

uint32_t virtual_add_host(struct virtual *v, const uint8_t mac[6], uint32_t address)
{
    struct node *node = add_node(v, true);
    if (!node)
        return VIRTUAL_NONE;
    memcpy(node->host.mac, mac, sizeof node->host.mac);
    node->host.address = address;
    return v->nodes - 1;
}

static struct wire *wire_at(struct node *node, uint16_t port)
{
    if (port >= node->ports) {
        uint16_t ports = (uint16_t)(port + 1);
        struct wire *wire = realloc(node->wire, ports * sizeof *wire);
        if (!wire)
            return NULL;
        memset(wire + node->ports, 0, (size_t)(ports - node->ports) * sizeof *wire);
        node->wire = wire;
        node->ports = ports;
    }
    return &node->wire[port];
}

bool virtual_connect(struct virtual *v, uint32_t node, uint16_t port, uint32_t other,
                     uint16_t other_port)
{
    struct node *a = v->node[node], *b = v->node[other];
    if (!wire_at(a, port) || !wire_at(b, other_port))
        return false;
    a->wire[port].to = b;
    a->wire[port].to_port = other_port;
    b->wire[other_port].to = a;
    b->wire[other_port].to_port = port;
    return true;
}

int virtual_capture(struct virtual *v, uint32_t node, uint16_t port, int what, const char *path)
{
    if (!v->captures && !(v->captures = capture_set_create()))
        return -1;
    struct capture *capture = capture_open(v->captures, path);
    if (!capture)
        return -1;
    v->node[node]->wire[port].capture[what] = capture;
    return 0;
}

/* --- frames on their way ---------------------------------------------------------------------- */

static bool more_arrivals(struct virtual *v)
{
    uint32_t room = v->arrival_room;
    struct arrival *grown = malloc(2 * (size_t)room * sizeof *grown);
    if (!grown)
        return false;
    for (uint32_t i = 0; i < room; i++)
        grown[i] = v->arrivals[(v->arrival_first + i) % room];
    free(v->arrivals);
    v->arrivals = grown;
    v->arrival_first = 0;
    v->arrival_room = 2 * room;
    return true;
}

void virtual_put_on_wire(struct node *from, uint16_t port, struct packet *packet)
{
    struct virtual *v = from->v;
    const struct wire *wire = port < from->ports ? &from->wire[port] : NULL;
    if (!wire || !wire->to) { /* a host without a wire; switches' ports are down then */
        packet_give(v->pool, packet);
        return;
    }
    if (v->arrival_count == v->arrival_room && !more_arrivals(v))
        abort(); /* a lost frame would be a wrong result */
    uint32_t at = (v->arrival_first + v->arrival_count++) & (v->arrival_room - 1);
    v->arrivals[at] = (struct arrival){packet, wire->to, wire->to_port};
}

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

/* --- what engines call ------------------------------------------------------------------------ */

static void transmit(void *user, uint16_t port, struct packet *packet, uint64_t now_ns)
{
    struct node *node = user;
    struct switching *s = &node->switching;
    (void)now_ns; /* elements are woken in time: it is now */
    if (port != s->cpu_port) {
        virtual_put_on_wire(node, port, packet);
        return;
    }
    packet->next = NULL;
    *s->to_cpu.end = packet;
    s->to_cpu.end = &packet->next;
    want_control(node);
}

static void tap(void *user, enum engine_tap where, uint16_t port, const struct packet *packet,
                uint64_t now_ns)
{
    struct node *node = user;
    struct capture *capture = port < node->ports ? node->wire[port].capture[where] : NULL;
    if (capture)
        capture_frame(capture, now_ns, packet->data, packet->length);
}

static void link_drop(void *user, uint16_t port, uint64_t now_ns, const uint8_t *frame,
                      uint32_t length)
{
    struct node *node = user;
    struct capture *capture = node->wire[port].capture[2];
    if (capture)
        capture_frame(capture, now_ns, frame, length);
}

static void notify(void *user)
{
    want_control(user);
}

static bool has_captures(const struct node *node)
{
    for (uint32_t port = 0; port < node->ports; port++)
        for (int what = 0; what < 3; what++)
            if (node->wire[port].capture[what])
                return true;
    return false;
}

void virtual_set_engine(struct virtual *v, uint32_t number, struct engine *engine,
                        const struct virtual_calls *calls)
{
    struct node *node = v->node[number];
    struct switching *s = &node->switching;
    struct engine_driver driver = {.user = node, .transmit = transmit, .notify = notify};
    if (has_captures(node)) {
        driver.tap = tap;
        driver.link_drop = link_drop;
    }
    s->engine = engine;
    s->calls = *calls;
    calls->set_driver(engine, &driver);
    for (uint16_t port = 0; port < node->ports; port++)
        if (node->wire[port].to)
            calls->set_port(engine, port, true);
    if (s->cpu_port != VIRTUAL_NO_CPU)
        calls->set_port(engine, s->cpu_port, true);
    virtual_refresh(v, number);
}

void virtual_refresh(struct virtual *v, uint32_t number)
{
    struct switching *s = &v->node[number]->switching;
    events_set(v->events, s->element, s->calls.advance(s->engine, v->now_ns));
}

/* --- the loop --------------------------------------------------------------------------------- */

static void arrive(struct virtual *v, const struct arrival *arrival)
{
    struct node *node = arrival->to;
    if (node->is_host) {
        host_receive(node, arrival->packet);
        return;
    }
    struct switching *s = &node->switching;
    s->calls.receive(s->engine, arrival->port, arrival->packet, v->now_ns);
    events_set(v->events, s->element, s->calls.advance(s->engine, v->now_ns));
}

static void wake(struct virtual *v, uint32_t number)
{
    const struct element *element = &v->element[number];
    uint64_t due_ns;
    if (element->source) {
        due_ns = source_wake(element->source, v->now_ns);
    } else {
        struct switching *s = &element->node->switching;
        due_ns = s->calls.advance(s->engine, v->now_ns);
    }
    events_set(v->events, number, due_ns);
}

enum virtual_stop virtual_run(struct virtual *v, uint64_t until_ns, uint64_t max_events)
{
    uint64_t last = v->event_count + max_events;
    for (; v->event_count < last; v->event_count++) {
        if (v->arrival_count) {
            struct arrival arrival = v->arrivals[v->arrival_first];
            v->arrival_first = (v->arrival_first + 1) & (v->arrival_room - 1);
            v->arrival_count--;
            arrive(v, &arrival);
            continue;
        }
        if (v->first_control)
            return VIRTUAL_CONTROL;
        uint32_t element;
        uint64_t due_ns = events_next(v->events, &element);
        if (due_ns > until_ns || due_ns == UINT64_MAX) {
            if (until_ns > v->now_ns && until_ns != UINT64_MAX)
                v->now_ns = until_ns;
            return VIRTUAL_REACHED;
        }
        v->now_ns = due_ns > v->now_ns ? due_ns : v->now_ns;
        wake(v, element);
    }
    return VIRTUAL_PAUSED;
}

uint64_t virtual_next(const struct virtual *v)
{
    uint32_t element;
    return v->arrival_count ? v->now_ns : events_next(v->events, &element);
}

/* --- the control plane ------------------------------------------------------------------------ */

uint32_t virtual_control_next(struct virtual *v)
{
    struct node *node = v->first_control;
    if (!node)
        return VIRTUAL_NONE;
    node->switching.wants_control = false;
    v->first_control = node->switching.next_control;
    if (!v->first_control)
        v->end_control = &v->first_control;
    return node->number;
}

uint32_t virtual_cpu_read(struct virtual *v, uint32_t number, uint8_t *room)
{
    struct fifo *fifo = &v->node[number]->switching.to_cpu;
    struct packet *packet = fifo->first;
    if (!packet)
        return 0;
    fifo->first = packet->next;
    if (!fifo->first)
        fifo->end = &fifo->first;
    uint32_t length = packet->length;
    memcpy(room, packet->data, length);
    packet_give(v->pool, packet);
    return length;
}

int virtual_cpu_write(struct virtual *v, uint32_t number, const uint8_t *frame, uint32_t length)
{
    struct node *node = v->node[number];
    struct packet *packet = length <= PACKET_MAX_FRAME ? packet_take(v->pool) : NULL;
    if (!packet)
        return -1;
    memcpy(packet->data, frame, length);
    packet->length = length;
    arrive(v, &(struct arrival){packet, node, node->switching.cpu_port});
    return 0;
}
