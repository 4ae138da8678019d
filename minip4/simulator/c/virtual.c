/* The virtual network: creation and destruction, nodes and wires, and its control plane. */
#include "threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Limit of packets in the whole network. A packet uses the memory pages of its frame, 4 to 12 KB,
 * so the limit is at most 6 GB. A forwarding loop that copies packets ends the run instead of
 * exhausting the machine's memory. */
enum { MAX_PACKETS = 1 << 19 };

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

struct virtual *virtual_create(uint64_t now_ns, uint32_t threads)
{
    struct virtual *v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->now_ns = now_ns;
    v->partition = calloc(threads, sizeof(struct partition *));
    while (v->partition && v->partitions < threads &&
           (v->partition[v->partitions] = partition_create(v, (uint16_t)v->partitions)))
        v->partitions++;
    if (v->partitions < threads || !sources_make_room(v) || (threads > 1 && !threads_create(v))) {
        virtual_destroy(v, NULL, 0);
        return NULL;
    }
    packet_pool_set_limit(v->partition[0]->pool, MAX_PACKETS);
    return v;
}

static void node_free(struct node *node)
{
    if (node->is_host)
        host_free(&node->host);
    else
        memory_give(node->wire, node->ports * sizeof *node->wire);
    memory_give(node->port, node->ports * sizeof *node->port);
    memory_give(node, sizeof *node);
}

int virtual_destroy(struct virtual *v, char *error, size_t error_size)
{
    threads_destroy(v);
    int result = v->captures ? capture_set_close(v->captures, error, error_size) : 0;
    sources_free(v);
    connections_free(v);
    inboxes_free(v);
    for (uint32_t i = 0; i < v->nodes; i++)
        node_free(v->node[i]);
    for (struct program_calls *calls = v->programs, *next; calls; calls = next) {
        next = calls->next;
        free(calls);
    }
    for (uint32_t i = 0; i < v->partitions; i++)
        partition_free(v->partition[i]);
    free(v->partition);
    free(v->node);
    memory_give(v->source, v->source_room * sizeof *v->source);
    free(v);
    return result;
}

struct packet_pool *virtual_pool(struct virtual *v)
{
    return v->partition[0]->pool;
}

uint64_t virtual_max_packets(void)
{
    return MAX_PACKETS;
}

uint64_t virtual_now(const struct virtual *v)
{
    return v->now_ns;
}

bool virtual_is_short(const struct virtual *v)
{
    bool is_short = false;
    for (uint32_t i = 0; i < v->partitions; i++)
        is_short |= v->partition[i]->is_short;
    return is_short;
}

uint64_t virtual_events(const struct virtual *v)
{
    uint64_t events = 0;
    for (uint32_t i = 0; i < v->partitions; i++)
        events += v->partition[i]->event_count;
    return events;
}

/* --- nodes and wires -------------------------------------------------------------------------- */

static struct node *add_node(struct virtual *v, bool is_host)
{
    struct node *node = memory_take(sizeof *node);
    if (!node || !virtual_room(&v->node, v->nodes, &v->node_room, sizeof(struct node *))) {
        memory_give(node, sizeof *node);
        return NULL;
    }
    node->partition = v->partition[0];
    node->number = v->nodes;
    node->is_host = is_host;
    node->place = UINT16_MAX;
    v->is_stale = true;
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
    s->queued_ns = UINT64_MAX;
    return node->number;
}

uint32_t virtual_add_host(struct virtual *v, const uint8_t mac[6], uint32_t address, uint32_t mtu)
{
    struct node *node = add_node(v, true);
    if (!node)
        return VIRTUAL_NONE;
    memcpy(node->host.mac, mac, sizeof node->host.mac);
    node->host.address = address;
    node->host.longest_frame = mtu + ETHERNET_AND_TAG;
    node->wire = &node->host.wire;
    node->ports = 1;
    return node->number;
}

static bool make_ports(struct node *node, uint16_t ports)
{
    struct wire *wire = memory_resize(node->wire, node->ports * sizeof *wire, ports * sizeof *wire);
    if (!wire)
        return false;
    node->wire = wire;
    struct port *port = memory_resize(node->port, node->ports * sizeof *port, ports * sizeof *port);
    node->port = port ? port : node->port;
    node->ports = port ? ports : node->ports;
    return port != NULL;
}

static struct wire *wire_at(struct node *node, uint16_t port)
{
    if (node->is_host) /* for a host, the delay of its wire is inside the partition */
        return port ? NULL : node->wire;
    if (port >= node->ports && !make_ports(node, (uint16_t)(port + 1)))
        return NULL;
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

int virtual_capture(struct virtual *v, uint32_t node, uint16_t port, int what, const char *path,
                    uint32_t snaplen)
{
    if (!v->captures && !(v->captures = capture_set_create()))
        return -1;
    struct capture *capture = capture_open(v->captures, path, snaplen);
    if (!capture)
        return -1;
    v->node[node]->port[port].captured[what] = capture;
    v->node[node]->is_captured = true;
    return 0;
}

void virtual_place(struct virtual *v, uint32_t node, uint16_t partition)
{
    v->node[node]->place = partition;
    v->is_stale = true;
}

void virtual_partition(const struct virtual *v, uint32_t number, struct virtual_partition *out)
{
    const struct partition *p = v->partition[number];
    *out = (struct virtual_partition){
        .nodes = v->is_cut ? p->nodes : number ? 0 : v->nodes, .events = p->event_count, .sent = atomic_load(&p->sent),
        .waited_ns = p->waited_ns, .lookahead_ns = UINT64_MAX, .may_stop = p->may_stop};
    for (uint32_t i = 0; v->is_cut && i < v->partitions; i++)
        if (i != number && *lookahead_between(v, i, number) < out->lookahead_ns)
            out->lookahead_ns = *lookahead_between(v, i, number);
}

uint64_t virtual_at_once(const struct virtual *v)
{
    return v->threads ? v->threads->at_once : 0;
}

void virtual_stay_parallel(struct virtual *v)
{
    if (v->threads)
        v->threads->stays_parallel = true;
}

uint64_t virtual_too_long(const struct virtual *v, uint32_t node, uint16_t port)
{
    return v->node[node]->port[port].too_long;
}

/* --- runs ------------------------------------------------------------------------------------- */

static enum virtual_stop run_one(struct virtual *v, uint64_t until_ns, uint64_t max_events)
{
    struct partition *p = v->partition[0];
    enum virtual_stop stop = partition_run(p, until_ns, p->event_count + max_events);
    if (stop == VIRTUAL_REACHED && until_ns > p->now_ns && until_ns != UINT64_MAX)
        p->now_ns = until_ns;
    v->now_ns = p->now_ns;
    return stop;
}

/* Partition the network if necessary. Returns VIRTUAL_REACHED if it may run. */
static enum virtual_stop cut_if_due(struct virtual *v, uint64_t max_events)
{
    if (v->threads && virtual_is_uneven(v)) {
        v->is_load_known = v->is_stale = true;
        v->cuts_for_load++;
    }
    if (!v->threads || !v->is_stale)
        return VIRTUAL_REACHED;
    enum virtual_stop stop = threads_meet(v, max_events);
    if (stop == VIRTUAL_REACHED && !virtual_cut(v))
        return VIRTUAL_SHORT;
    return stop;
}

static enum virtual_stop run(struct virtual *v, uint64_t until_ns, uint64_t max_events)
{
    uint64_t last = time_plus(virtual_events(v), max_events);
    enum virtual_stop stop;
    do {
        stop = cut_if_due(v, last - virtual_events(v));
        uint64_t left = last - virtual_events(v);
        if (stop == VIRTUAL_REACHED)
            stop = v->is_cut ? threads_run(v, until_ns, left) : run_one(v, until_ns, left);
    } while (stop == VIRTUAL_PAUSED && virtual_events(v) < last);
    return stop;
}

enum virtual_stop virtual_run(struct virtual *v, uint64_t until_ns, uint64_t max_events)
{
    v->is_running = true;
    enum virtual_stop stop = run(v, until_ns, max_events);
    v->is_running = false;
    return stop;
}

uint64_t virtual_next(struct virtual *v)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < v->partitions; i++) {
        struct partition *p = v->partition[i];
        next_ns = time_least(next_ns, p->arrival_count ? p->now_ns : partition_next_ns(p));
    }
    return next_ns;
}

/* --- the control plane ------------------------------------------------------------------------ */

uint32_t virtual_control_next(struct virtual *v)
{
    /* the partition of all nodes that may stop the network */
    struct partition *p = v->partition[0];
    struct node *node = p->first_control;
    if (!node)
        return VIRTUAL_NONE;
    node->switching.wants_control = false;
    p->first_control = node->switching.next_control;
    if (!p->first_control)
        p->end_control = &p->first_control;
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
    packet_give(v->node[number]->partition->pool, packet);
    return length;
}

int virtual_cpu_write(struct virtual *v, uint32_t number, const uint8_t *frame, uint32_t length)
{
    struct node *node = v->node[number];
    struct packet *packet = length <= PACKET_MAX_FRAME ? packet_take(node->partition->pool) : NULL;
    if (!packet)
        return -1;
    memcpy(packet->data, frame, length);
    packet->length = length;
    virtual_arrive(node->partition,
                   &(struct arrival){packet, node, v->now_ns, node->switching.cpu_port, 0, 0});
    return 0;
}
