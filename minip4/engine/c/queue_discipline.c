/* The traffic manager: the queue discipline of each port, and the link after the queues. A port has
 * a queue per priority, with a rate and a depth. Of the queues that may send, the one with the
 * highest priority sends. A full queue drops the packet that arrives (drop-tail). In real time and
 * in virtual time, switches use the same queues. */
#include "engine_internal.h"

void fifo_push(struct fifo *fifo, struct packet *packet)
{
    packet->next = NULL;
    if (fifo->count++)
        fifo->last->next = packet;
    else
        fifo->first = packet;
    fifo->last = packet;
}

struct packet *fifo_pop(struct fifo *fifo)
{
    struct packet *packet = fifo->first;
    fifo->first = packet->next;
    fifo->count--;
    return packet;
}

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Account for a transmitted packet. `units` is its size in the unit of the rate. */
static void shape(struct shaper *shaper, uint64_t units, uint64_t now_ns)
{
    if (!shaper->rate)
        return;
    if (now_ns > shaper->ready_ns)
        shaper->remainder = 0; /* the shaper was idle, so there is no remainder to carry over */
    uint64_t time = units * 1000000000 + shaper->remainder;
    shaper->remainder = time % shaper->rate;
    shaper->ready_ns = max(now_ns, shaper->ready_ns) + time / shaper->rate;
}

static uint64_t ready_at(const struct queue *queue)
{
    return max(queue->pps.ready_ns, queue->bps.ready_ns);
}

/* Return the time at which the port may send its next packet, or UINT64_MAX if no packet waits.
 * Sets *which to the highest queue that may send at that time. */
static uint64_t next_send(const struct engine *e, const struct port *port, uint32_t *which)
{
    const struct queue *queue = backlog_of(e, port)->queue;
    uint64_t due = UINT64_MAX;
    for (uint32_t i = e->priorities; port->waiting && i-- > 0;) {
        if (!queue[i].packets.count)
            continue;
        uint64_t at = max(port->link.free_at_ns, ready_at(&queue[i]));
        if (at < due) {
            due = at;
            *which = i;
        }
    }
    return due;
}

static void set_bit(uint64_t *set, uint32_t number, bool value)
{
    uint64_t bit = UINT64_C(1) << number % 64;
    set[number / 64] = value ? set[number / 64] | bit : set[number / 64] & ~bit;
}

static bool has_bit(const uint64_t *set, uint32_t number)
{
    return set[number / 64] >> number % 64 & 1;
}

void traffic_settle(struct engine *e, struct port *port)
{
    uint32_t which;
    uint64_t due = next_send(e, port, &which);
    if (has_link(port) && !e->driver.keeps_flying && backlog_of(e, port)->link_due_ns < due)
        due = backlog_of(e, port)->link_due_ns;
    port->due_ns = due;
    set_bit(e->pending, port->number, due != UINT64_MAX);
    set_bit(e->open, port->number, port->is_up && !port->waiting);
    if (due < e->next_due_ns)
        e->next_due_ns = due;
}

void traffic_count_drop(struct engine *e, enum drop_reason reason, uint32_t port)
{
    uint64_t *const totals[DROP_REASONS] = {
        [DROP_INGRESS] = &e->counters.ingress_drops,  [DROP_MISS] = &e->counters.ingress_drops,
        [DROP_NO_GROUP] = &e->counters.ingress_drops,
        [DROP_EGRESS] = &e->counters.egress_drops,    [DROP_NO_PORT] = &e->counters.no_port_drops,
        [DROP_NO_QUEUE] = &e->counters.queue_drops,   [DROP_QUEUE] = &e->counters.queue_drops,
        [DROP_AGAIN] = &e->counters.queue_drops,      [DROP_MEMORY] = &e->counters.memory_drops,
        [DROP_HEADERS] = &e->counters.memory_drops,
    };
    ++*totals[reason];
    e->backlog[port < ENGINE_MAX_PORTS ? port : ENGINE_MAX_PORTS].drops[reason]++;
}

void traffic_drop(struct engine *e, struct packet *packet, enum drop_reason reason, uint32_t port)
{
    TRACE(&e->context, phv_start(packet)->trace, TRACED_DROP, reason, (uint16_t)port, NULL, 0);
    traffic_count_drop(e, reason, port);
    packet_give(e->pool, packet);
}

/* Return the bytes of a frame in the queue. The program can make its length meaningless, for
 * example by removing a header that it never added. Then the length of the received frame
 * counts. */
static uint64_t waiting_bytes(struct packet *packet)
{
    uint32_t length = phv_start(packet)->packet_length;
    return length <= PACKET_ROOM + PACKET_MAX_FRAME ? length : packet->length;
}

static bool has_room(const struct queue *queue, uint64_t bytes)
{
    uint64_t depth = queue->is_set ? queue->config.depth_packets : DEFAULT_QUEUE_DEPTH;
    return queue->packets.count < depth &&
           (!queue->config.depth_bytes || queue->bytes + bytes <= queue->config.depth_bytes);
}

void traffic_enqueue(struct engine *e, uint16_t number, struct packet *packet)
{
    struct phv_start *start = phv_start(packet);
    if (number >= ENGINE_MAX_PORTS || !e->port[number].is_up) {
        traffic_drop(e, packet, DROP_NO_PORT, number);
        return;
    }
    struct port *port = &e->port[number];
    struct backlog *backlog = backlog_of(e, port);
    if (start->priority >= e->priorities) {
        backlog->queue_drops++;
        traffic_drop(e, packet, DROP_NO_QUEUE, number);
        return;
    }
    struct queue *queue = &backlog->queue[start->priority];
    uint64_t bytes = waiting_bytes(packet);
    if (!has_room(queue, bytes)) {
        queue->drops++;
        backlog->queue_drops++;
        if (e->deflects && !start->is_clone)
            pipeline_deflect(e, port, packet, queue);
        traffic_drop(e, packet, DROP_QUEUE, number);
        return;
    }
    TRACE(&e->context, start->trace, TRACED_ENQUEUE, start->priority, number,
          TRACE_WORDS(queue->packets.count, queue->bytes));
    start->enqueued_us = e->context.now_us;
    program.set_enqueued(packet->phv, e->context.now_us, queue->packets.count);
    fifo_push(&queue->packets, packet);
    queue->bytes += bytes;
    port->waiting++;
    e->counters.in_queues++;
    traffic_settle(e, port);
}

void traffic_forward(struct engine *e, uint16_t number, struct packet *packet)
{
    struct port *port = &e->port[number & (ENGINE_MAX_PORTS - 1)];
    struct phv_start *start = phv_start(packet);
    uint64_t now_ns = e->context.now_ns;
    bool is_shaped = e->is_shaped && port->is_shaped;
    if (number >= ENGINE_MAX_PORTS || !has_bit(e->open, number) ||
        start->priority >= e->priorities || port->link.free_at_ns > now_ns ||
        (is_shaped && ready_at(&backlog_of(e, port)->queue[start->priority]) > now_ns)) {
        traffic_enqueue(e, number, packet);
        return;
    }
    start->enqueued_us = e->context.now_us;
    program.set_enqueued(packet->phv, e->context.now_us, 0);
    if (is_shaped)
        shape(&backlog_of(e, port)->queue[start->priority].pps, 1, now_ns);
    pipeline_egress(e, port, packet, 0, start->priority);
    if (!e->driver.keeps_flying && has_link(port))
        traffic_settle(e, port);
}

static void leave(struct engine *e, uint16_t port, struct packet *packet, uint64_t now_ns)
{
    if (e->driver.transmit)
        e->driver.transmit(e->driver.user, port, packet, now_ns);
    else
        packet_give(e->pool, packet);
}

static void link_delivers(void *user, struct packet *packet, uint64_t now_ns)
{
    struct port *port = user;
    leave(engine_of(port), port->number, packet, now_ns);
}

static void link_drops(void *user, uint64_t now_ns, const uint8_t *frame, uint32_t length)
{
    struct port *port = user;
    const struct engine_driver *driver = &engine_of(port)->driver;
    if (driver->link_drop)
        driver->link_drop(driver->user, port->number, now_ns, frame, length);
}

bool traffic_make_link(struct port *port, const struct link_config *config)
{
    struct packet_pool *pool = engine_of(port)->pool;
    return link_open(&port->link, config, pool, link_delivers, link_drops, port);
}

/* Send a frame on the port's link. */
static void fly(struct engine *e, struct port *port, struct packet *packet)
{
    uint64_t now_ns = e->context.now_ns;
    if (e->driver.keeps_flying) {
        if (link_pass(&port->link, packet, now_ns))
            leave(e, number_of(e, port), packet, packet->time_ns);
    } else {
        link_send(&port->link, packet, now_ns);
        backlog_of(e, port)->link_due_ns = link_advance(&port->link, now_ns);
    }
}

void traffic_transmit(struct engine *e, struct port *port, struct packet *packet)
{
    uint64_t now_ns = e->context.now_ns;
    if (e->driver.tap)
        e->driver.tap(e->driver.user, TAP_OUT, number_of(e, port), packet, now_ns);
    if (e->is_shaped && port->is_shaped)
        shape(&backlog_of(e, port)->queue[phv_start(packet)->priority].bps,
              packet->length * UINT64_C(8), now_ns);
    if (!has_link(port)) {
        port->transmitted_packets++;
        port->transmitted_bytes += packet->length;
        TRACE(&e->context, phv_start(packet)->trace, TRACED_OUT, packet->length, port->number,
              TRACE_WORDS(0));
        leave(e, number_of(e, port), packet, now_ns);
        return;
    }
#ifdef MINIP4_TRACE
    uint32_t traced = phv_start(packet)->trace, length = packet->length;
    uint64_t lost = link_counters(&port->link)->lost_packets;
#endif
    fly(e, port, packet);
    TRACE(&e->context, traced, TRACED_OUT, length, port->number,
          TRACE_WORDS(link_counters(&port->link)->lost_packets - lost));
}

/* Process the due work of one port: first frames that leave its link, then its next packet. */
static void serve(struct engine *e, struct port *port)
{
    uint64_t now_ns = e->context.now_ns;
    struct backlog *backlog = backlog_of(e, port);
    if (has_link(port) && !e->driver.keeps_flying && backlog->link_due_ns <= now_ns)
        backlog->link_due_ns = link_advance(&port->link, now_ns);
    uint32_t which = 0;
    if (next_send(e, port, &which) <= now_ns) {
        struct queue *queue = &backlog->queue[which];
        struct packet *packet = fifo_pop(&queue->packets);
        queue->bytes -= waiting_bytes(packet);
        port->waiting--;
        e->counters.in_queues--;
        shape(&queue->pps, 1, now_ns);
        pipeline_egress(e, port, packet, queue->packets.count, (uint8_t)which);
    }
    traffic_settle(e, port);
}

static uint64_t p4_time(const struct engine *e, uint64_t time_ns)
{
    int64_t drift_us = 0;
    if (e->clock_drift_ppb) {
        __int128 ran_ns = (__int128)time_ns - e->drifts_since_ns;
        drift_us = (int64_t)(ran_ns * e->clock_drift_ppb / 1000000000 / 1000);
    }
    return low_bits(time_ns / 1000 + (uint64_t)e->clock_offset_us + (uint64_t)drift_us, 48);
}

static void set_time(struct engine *e, uint64_t now_ns)
{
    e->context.now_ns = now_ns;
    e->context.now_us = p4_time(e, now_ns);
}

/* Return the port whose work is due first, or NULL if a packet for another pass of the parser is
 * due first. */
static struct port *first_due(struct engine *e, uint64_t *due_ns)
{
    struct port *first = NULL;
    *due_ns = e->again_due_ns;
    for (uint32_t word = 0; word < ENGINE_MAX_PORTS / 64; word++)
        for (uint64_t left = e->pending[word]; left; left &= left - 1) {
            uint32_t i = word * 64 + (uint32_t)__builtin_ctzll(left);
            if (e->port[i].due_ns < *due_ns) {
                *due_ns = e->port[i].due_ns;
                first = &e->port[i];
            }
        }
    return first;
}

uint64_t engine_advance(struct engine *e, uint64_t now_ns)
{
    uint32_t work = 0;
    while (e->next_due_ns <= now_ns) {
        uint64_t due_ns;
        struct port *port = first_due(e, &due_ns);
        e->next_due_ns = due_ns;
        if (due_ns > now_ns)
            break;
        if (++work > MAX_WORK) {
            e->next_due_ns = now_ns + PAUSE_NS;
            break;
        }
        set_time(e, max(due_ns, e->context.now_ns));
        if (port) {
            serve(e, port);
        } else {
            pipeline_again(e, fifo_pop(&e->again));
            e->again_due_ns = e->again.count ? e->context.now_ns : UINT64_MAX;
        }
    }
    return e->next_due_ns;
}

/* Replace a packet that was received before a program with longer parsed packets was installed. */
static struct packet *exchanged(struct engine *e, uint16_t port, struct packet *packet)
{
    struct packet *wider = packet_exchange(e->pool, packet);
    if (!wider) {
        traffic_count_drop(e, DROP_MEMORY, port);
        packet_give(e->pool, packet);
    }
    return wider;
}

void engine_receive(struct engine *e, uint16_t port, struct packet *packet, uint64_t arrived_ns,
                    uint64_t now_ns)
{
    engine_advance(e, now_ns);
    set_time(e, now_ns);
    if (arrived_ns != now_ns)
        e->context.waited_us = (uint32_t)(e->context.now_us - p4_time(e, arrived_ns));
    if (port < ENGINE_MAX_PORTS) {
        e->received[port].packets++;
        e->received[port].bytes += packet->length;
    } else {
        e->counters.received++;
    }
    if (e->driver.tap)
        e->driver.tap(e->driver.user, TAP_IN, port, packet, arrived_ns);
    if (packet->phv_size < program.phv_size)
        packet = exchanged(e, port, packet);
    if (packet) {
        e->context.packet = packet;
        pipeline_ingress(e, port);
    }
    if (arrived_ns != now_ns)
        e->context.waited_us = 0;
    engine_advance(e, now_ns);
}
