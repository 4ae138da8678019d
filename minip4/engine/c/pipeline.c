/* The path of a packet through the switch, in the order of simple_switch. Ingress: parse, ingress,
 * clone, digest, resubmit, multicast, drop or unicast. Egress: egress, clone, drop, deparse,
 * recirculate. */
#include "copies.h"

/* Clone the received frame and parse the clone. Only the metadata in the field list are preserved.
 * Requests of the parser, such as drops, are ignored. */
static void clone_ingress(struct engine *e, uint16_t port)
{
    const struct requests request = e->context.request;
    const struct replicas *to = session(e, request.clone_session);
    struct packet *original = e->context.packet;
    struct packet *clone = to ? copy_frame(e, original) : NULL;
    if (!clone)
        return;
    e->context.packet = clone;
    program.start(&e->context, port);
    phv_start(clone)->ingress_port = port;
    phv_start(clone)->is_clone = true;
    program.parse(&e->context);
    program.clear_metadata(clone->phv);
    program.copy_list(request.clone_list, clone->phv, original->phv);
    program.set_instance(clone->phv, INSTANCE_INGRESS_CLONE);
    uint32_t traced = phv_start(original)->trace;
    TRACE(&e->context, traced, TRACED_CLONE, request.clone_session & (MAX_SESSIONS - 1), 0,
          TRACE_WORDS(to->count));
    replicate(e, to, clone, traced, INSTANCE_INGRESS_CLONE);
    e->context.packet = original;
    e->context.request = request;
}

/* Clone the packet with the headers that it has at the end of egress. Only the metadata in the
 * field list are preserved. */
static void clone_egress(struct engine *e, const struct requests *request)
{
    const struct replicas *to = session(e, request->clone_session);
    struct packet *original = e->context.packet;
    struct packet *clone = to ? copy_packet(e, original) : NULL;
    if (!clone)
        return;
    program.clear_metadata(clone->phv);
    program.copy_list(request->clone_list, clone->phv, original->phv);
    program.set_instance(clone->phv, INSTANCE_EGRESS_CLONE);
    phv_start(clone)->truncate_to = UINT32_MAX;
    phv_start(clone)->is_clone = true;
    uint32_t traced = phv_start(original)->trace;
    TRACE(&e->context, traced, TRACED_CLONE, request->clone_session & (MAX_SESSIONS - 1), 0,
          TRACE_WORDS(to->count));
    replicate(e, to, clone, traced, INSTANCE_EGRESS_CLONE);
    e->context.packet = original;
}

/* Prepare a packet for another pass of the parser: all metadata except those in the field list
 * become 0. */
static void put_again(struct engine *e, uint32_t list, enum instance_type type)
{
    struct packet *packet = e->context.packet;
    struct phv_start before = *phv_start(packet);
    if (e->again.count == MAX_AGAIN) {
        traffic_drop(e, packet, DROP_AGAIN, before.ingress_port);
        return;
    }
    TRACE(&e->context, before.trace, TRACED_AGAIN, type, 0, NULL, 0);
    memcpy(e->scratch, packet->phv, program.phv_size);
    program.start(&e->context, 0);
    phv_start(packet)->ingress_port = before.ingress_port;
    phv_start(packet)->trace = before.trace;
    program.clear_metadata(packet->phv);
    program.copy_list(list, packet->phv, e->scratch);
    program.set_instance(packet->phv, type);
    program.set_length(packet->phv, packet->length);
    fifo_push(&e->again, packet);
    e->counters.in_queues++;
    e->again_due_ns = e->context.now_ns;
    if (e->again_due_ns < e->next_due_ns)
        e->next_due_ns = e->again_due_ns;
}

static void multicast(struct engine *e, uint32_t group)
{
    const struct replicas *to = e->groups ? e->groups[group & (MAX_GROUPS - 1)] : NULL;
    struct packet *packet = e->context.packet;
    const struct phv_start *start = phv_start(packet);
    if (!to || !to->count) {
        traffic_drop(e, packet, DROP_NO_GROUP, start->ingress_port);
        return;
    }
    uint32_t traced = start->trace;
    TRACE(&e->context, traced, TRACED_MULTICAST, group, 0, TRACE_WORDS(to->count));
    program.set_instance(packet->phv, INSTANCE_REPLICATION);
    replicate(e, to, packet, traced, INSTANCE_REPLICATION);
}

/* Read only the members that are used, each with the size with which it was written. A copy of the
 * whole structure would stall, because store forwarding fails for different sizes. */
static void after_ingress(struct engine *e, uint16_t port)
{
    const struct requests *request = &e->context.request;
    struct packet *packet = e->context.packet;
    phv_start(packet)->priority = request->priority;
    if (request->clone_session)
        clone_ingress(e, port);
    if (request->digest)
        learn(e, request->digest);
    if (request->resubmit_list) {
        put_again(e, request->resubmit_list, INSTANCE_RESUBMITTED);
    } else if (request->mcast_grp) {
        multicast(e, request->mcast_grp);
    } else if (request->egress_spec == ENGINE_DROP_PORT) {
        traffic_drop(e, packet, request->is_miss ? DROP_MISS : DROP_INGRESS,
                     phv_start(packet)->ingress_port);
    } else {
        program.set_instance(packet->phv, INSTANCE_NORMAL);
        phv_start(packet)->egress_port = (uint16_t)request->egress_spec;
        traffic_forward(e, (uint16_t)request->egress_spec, packet);
    }
}

static void clear_requests(struct engine *e)
{
    memset(&e->context.request, 0, sizeof e->context.request);
}

void pipeline_ingress(struct engine *e, uint16_t port)
{
    clear_requests(e);
    program.start(&e->context, port);
    struct phv_start *start = phv_start(e->context.packet);
    start->ingress_port = port;
#ifdef MINIP4_TRACE
    start->trace = trace_new_packet(e->context.trace);
    TRACE(&e->context, start->trace, TRACED_IN, e->context.packet->length, port, NULL, 0);
    trace_snapshot(&e->context);
#endif
    program.parse(&e->context);
    program.ingress(&e->context);
    after_ingress(e, port);
}

void pipeline_again(struct engine *e, struct packet *packet)
{
    e->counters.in_queues--;
    e->context.packet = packet;
    clear_requests(e);
#ifdef MINIP4_TRACE
    trace_snapshot(&e->context);
#endif
    program.parse(&e->context);
    program.ingress(&e->context);
    after_ingress(e, 0);
}

void pipeline_egress(struct engine *e, struct port *port, struct packet *packet, uint32_t depth,
                     uint8_t priority)
{
    struct phv_start *start = phv_start(packet);
    e->context.packet = packet;
    e->context.queue_depth = depth;
    clear_requests(e);
    uint16_t number = number_of(e, port);
    start->egress_port = number;
    start->priority = priority;
    TRACE(&e->context, start->trace, TRACED_DEQUEUE, priority, number,
          TRACE_WORDS(depth, e->context.now_us - start->enqueued_us));
    program.egress(&e->context);
    const struct requests *request = &e->context.request;
    if (request->clone_session)
        clone_egress(e, request);
    if (request->egress_spec == ENGINE_DROP_PORT) {
        traffic_drop(e, packet, DROP_EGRESS, number);
        return;
    }
    if (!program.deparse(&e->context)) {
        traffic_drop(e, packet, DROP_HEADERS, number);
        return;
    }
    if (packet->length > start->truncate_to)
        packet->length = start->truncate_to;
    if (request->recirculate_list)
        put_again(e, request->recirculate_list, INSTANCE_RECIRCULATED);
    else
        traffic_transmit(e, port, packet);
}

/* Runs egress for a packet whose queue is full, so that the program can clone it. A clone is never
 * deflected: if its queue was full, too, deflection would not end. */
void pipeline_deflect(struct engine *e, struct port *port, struct packet *packet,
                      const struct queue *queue)
{
    struct phv_start *start = phv_start(packet);
    e->context.packet = packet;
    e->context.queue_depth = queue->packets.count;
    clear_requests(e);
    start->egress_port = number_of(e, port);
    start->enqueued_us = e->context.now_us;
    program.set_enqueued(packet->phv, e->context.now_us, queue->packets.count);
    program.set_instance(packet->phv, INSTANCE_DEFLECTED);
    TRACE(&e->context, start->trace, TRACED_DEFLECT, start->priority, start->egress_port,
          TRACE_WORDS(queue->packets.count, queue->bytes));
    program.egress(&e->context);
    const struct requests *request = &e->context.request;
    if (request->clone_session)
        clone_egress(e, request);
}
