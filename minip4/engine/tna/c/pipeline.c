/* The path of a packet through a TNA switch. Ingress: parse, ingress, mirror, digest, resubmit,
 * deparse, then copies to the CPU, of multicast groups and to the unicast port. Egress: parse,
 * egress, deparse, mirror, drop. Between them, the frame has the bridged metadata. On Tofino 2, a
 * program may also mirror after the deparser of ingress, and before that of egress. */
#include "copies.h"
#include "tna.h"

enum { RECIRCULATION_PORT = 68 }; /* in each pipe: its packets enter ingress again */

static struct tna *tna_of(struct packet *packet)
{
    return (struct tna *)(void *)(packet->phv + sizeof(struct phv_start));
}

static void clear_requests(struct engine *e)
{
    memset(&e->context.request, 0, sizeof e->context.request);
}

/* Make room for metadata before a frame. Returns false if the frame is too long. */
static bool make_room(struct packet *packet)
{
    if (packet->data - packet->buffer > TNA_ROOM)
        return true;
    if (packet->length > PACKET_MAX_FRAME)
        return false;
    packet_make_room(packet);
    return true;
}

/* Remove bytes that were put before a frame. */
static void remove_bytes(struct packet *packet, uint32_t bytes)
{
    packet->data += bytes;
    packet->length -= bytes;
}

/* Prepare a packet for the queue of a port. */
static void prepare(struct engine *e, struct packet *packet)
{
    struct phv_start *start = phv_start(packet);
    struct tna *tna = tna_of(packet);
    start->packet_length = start->ingress_length = packet->length;
    start->priority = tna->qid < e->priorities ? tna->qid : (uint8_t)(e->priorities - 1);
    tna->enqueued_ns = tna_now_ns(&e->context);
}

/* Return whether the program mirrors the packet as it is after the deparser (`outgoing`) or before
 * the deparser. */
static bool mirrors(const struct tna *tna, bool outgoing)
{
    return tna->mirror_session && !(tna->drop_ctl & TNA_NO_MIRROR) &&
           tna->mirrors_outgoing == outgoing;
}

/* Send a copy of a frame, with the header of the mirror request before it, to its session. */
static void mirror(struct engine *e, struct packet *packet, uint32_t prefix)
{
    const struct tna *tna = tna_of(packet);
    const struct replicas *to = session(e, tna->mirror_session);
    struct packet *copy = to ? copy_frame(e, packet) : NULL;
    if (!copy)
        return;
    remove_bytes(copy, prefix);
    if (!make_room(copy)) {
        traffic_count_drop(e, DROP_HEADERS, phv_start(packet)->ingress_port);
        packet_give(e->pool, copy);
        return;
    }
    memcpy(tna_prepend(copy, tna->mirror_bytes), tna->mirror_data, tna->mirror_bytes);
    if (to->truncate_to && copy->length > to->truncate_to)
        copy->length = to->truncate_to;
    memset(copy->phv, 0, sizeof(struct phv_start) + sizeof(struct tna));
    uint32_t traced = phv_start(packet)->trace;
    phv_start(copy)->ingress_port = phv_start(packet)->ingress_port;
    phv_start(copy)->is_clone = true;
    prepare(e, copy);
    TRACE(&e->context, traced, TRACED_CLONE, tna->mirror_session & (MAX_SESSIONS - 1), 0,
          TRACE_WORDS(to->count));
    replicate(e, to, copy, traced, INSTANCE_INGRESS_CLONE);
}

/* Put a packet into the queue of ingress. There must be no metadata in front of its frame. */
static void put_again(struct engine *e, struct packet *packet, enum instance_type type,
                      uint16_t port)
{
    if (e->again.count == MAX_AGAIN) {
        traffic_drop(e, packet, DROP_AGAIN, port);
        return;
    }
    TRACE(&e->context, phv_start(packet)->trace, TRACED_AGAIN, type, 0, NULL, 0);
    phv_start(packet)->ingress_port = port;
    tna_of(packet)->resubmits = type == INSTANCE_RESUBMITTED;
    fifo_push(&e->again, packet);
    e->counters.in_queues++;
    e->again_due_ns = e->context.now_ns;
    if (e->again_due_ns < e->next_due_ns)
        e->next_due_ns = e->again_due_ns;
}

static const struct replicas *group(const struct engine *e, uint32_t number)
{
    const struct replicas *found =
        e->groups && number ? e->groups[number & (MAX_GROUPS - 1)] : NULL;
    return found && found->count ? found : NULL;
}

/* Send a copy to each port of a group; the packet itself is the last copy if `is_last`. */
static void multicast(struct engine *e, const struct replicas *to, struct packet *packet,
                      bool is_last)
{
    if (!to)
        return;
    uint32_t traced = phv_start(packet)->trace;
    struct packet *copy = is_last ? packet : copy_packet(e, packet);
    if (!copy)
        return;
    tna_of(copy)->is_first = true;
    replicate(e, to, copy, traced, INSTANCE_REPLICATION);
}

static void copy_to_cpu(struct engine *e, struct packet *packet)
{
    struct packet *copy = copy_packet(e, packet);
    if (!copy)
        return;
    const struct replica to = {e->cpu_port, 0};
    phv_start(copy)->egress_port = e->cpu_port;
    trace_copy(e, copy, phv_start(packet)->trace, INSTANCE_REPLICATION, &to);
    traffic_enqueue(e, e->cpu_port, copy);
}

/* Queue a packet for the CPU, its multicast groups and its unicast port. */
static void forward(struct engine *e, struct packet *packet)
{
    struct tna *tna = tna_of(packet);
    uint16_t ingress_port = phv_start(packet)->ingress_port;
    bool drops = tna->drop_ctl & TNA_DROPS;
    const struct replicas *a = drops ? NULL : group(e, tna->mcast_a);
    const struct replicas *b = drops ? NULL : group(e, tna->mcast_b);
    bool is_unicast = !drops && tna->ucast_port != TNA_NO_PORT;
    prepare(e, packet);
    if (tna->goes_to_cpu && !(tna->drop_ctl & TNA_NO_CPU_COPY))
        copy_to_cpu(e, packet);
    multicast(e, a, packet, !b && !is_unicast);
    multicast(e, b, packet, !is_unicast);
    if (is_unicast) {
        phv_start(packet)->egress_port = tna->ucast_port;
        traffic_forward(e, tna->ucast_port, packet);
    } else if (!a && !b) {
        bool has_group = !drops && (tna->mcast_a || tna->mcast_b);
        traffic_drop(e, packet, has_group ? DROP_NO_GROUP : DROP_INGRESS, ingress_port);
    }
}

static void after_ingress(struct engine *e)
{
    struct packet *packet = e->context.packet;
    struct tna *tna = tna_of(packet);
    uint16_t ingress_port = phv_start(packet)->ingress_port;
    if (mirrors(tna, false))
        mirror(e, packet, tna->prefix_bytes);
    if (e->context.request.digest)
        learn(e, e->context.request.digest);
    if (tna->resubmits && !(tna->drop_ctl & TNA_DROPS)) {
        remove_bytes(packet, tna->prefix_bytes);
        put_again(e, packet, INSTANCE_RESUBMITTED, ingress_port);
    } else if (!program.deparse_ingress(&e->context)) {
        traffic_drop(e, packet, DROP_HEADERS, ingress_port);
    } else {
        if (mirrors(tna, true))
            mirror(e, packet, 0);
        forward(e, packet);
    }
}

/* Process a frame from the parser on. If the frame was resubmitted, `resubmit` has
 * the data of its Resubmit.emit(); otherwise it is NULL. */
static void run_ingress(struct engine *e, uint16_t port, uint32_t traced, const struct tna *resubmit)
{
    struct packet *packet = e->context.packet;
    clear_requests(e);
    if (!make_room(packet)) {
        phv_start(packet)->trace = traced;
        traffic_drop(e, packet, DROP_HEADERS, port);
        return;
    }
    program.start(&e->context, port);
    struct tna *tna = tna_of(packet);
    phv_start(packet)->ingress_port = port;
    phv_start(packet)->trace = traced;
    if (resubmit) {
        uint32_t at = tna->prefix_bytes - tna->metadata_bytes;
        packet->data[0] |= 0x80; /* resubmit_flag */
        memcpy(packet->data + at, resubmit->resubmit_data, resubmit->resubmit_bytes);
    }
#ifdef MINIP4_TRACE
    trace_snapshot(&e->context);
#endif
    program.parse(&e->context);
    if (tna->is_rejected) {
        traffic_drop(e, packet, DROP_INGRESS, port);
        return;
    }
    program.ingress(&e->context);
    after_ingress(e);
}

void pipeline_ingress(struct engine *e, uint16_t port)
{
    uint32_t traced = 0;
#ifdef MINIP4_TRACE
    traced = trace_new_packet(e->context.trace);
    TRACE(&e->context, traced, TRACED_IN, e->context.packet->length, port, NULL, 0);
#endif
    run_ingress(e, port, traced, NULL);
}

void pipeline_again(struct engine *e, struct packet *packet)
{
    const struct phv_start start = *phv_start(packet);
    const struct tna tna = *tna_of(packet);
    e->counters.in_queues--;
    e->context.packet = packet;
    run_ingress(e, start.ingress_port, start.trace, tna.resubmits ? &tna : NULL);
}

/* Send a frame to its port, or to ingress if it is a recirculation port. */
static void leave_egress(struct engine *e, struct port *port, struct packet *packet)
{
    uint16_t number = number_of(e, port);
    if ((number & TNA_PORT_OF_PIPE) == RECIRCULATION_PORT)
        put_again(e, packet, INSTANCE_RECIRCULATED, number);
    else
        traffic_transmit(e, port, packet);
}

void pipeline_egress(struct engine *e, struct port *port, struct packet *packet, uint32_t depth,
                     uint8_t priority)
{
    struct phv_start *start = phv_start(packet);
    struct tna *tna = tna_of(packet);
    uint16_t number = number_of(e, port);
    e->context.packet = packet;
    e->context.queue_depth = depth;
    clear_requests(e);
    start->egress_port = number;
    start->priority = priority;
    TRACE(&e->context, start->trace, TRACED_DEQUEUE, priority, number,
          TRACE_WORDS(depth, e->context.now_us - start->enqueued_us));
    if (tna->bypasses_egress) {
        leave_egress(e, port, packet);
        return;
    }
    if (!make_room(packet)) {
        traffic_drop(e, packet, DROP_HEADERS, number);
        return;
    }
    tna->mirror_session = 0;
    program.enter_egress(&e->context);
#ifdef MINIP4_TRACE
    trace_snapshot(&e->context);
#endif
    program.parse_egress(&e->context);
    program.egress(&e->context);
    if (mirrors(tna, false))
        mirror(e, packet, tna->prefix_bytes);
    if (!mirrors(tna, true) && tna->drop_ctl & TNA_DROPS) {
        traffic_drop(e, packet, DROP_EGRESS, number);
    } else if (!program.deparse(&e->context)) {
        traffic_drop(e, packet, DROP_HEADERS, number);
    } else {
        if (mirrors(tna, true))
            mirror(e, packet, 0);
        if (tna->drop_ctl & TNA_DROPS)
            traffic_drop(e, packet, DROP_EGRESS, number);
        else
            leave_egress(e, port, packet);
    }
}

/* Do nothing: without deflect_on_drop, a packet whose queue is full does not reach egress. */
void pipeline_deflect(struct engine *e, struct port *port, struct packet *packet,
                      const struct queue *queue)
{
    (void)e, (void)port, (void)packet, (void)queue;
}
