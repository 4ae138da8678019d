/* Copies of packets, and digests, in the packet paths of all architectures. */
#ifndef MINIP4_COPIES_H
#define MINIP4_COPIES_H

#include <stdlib.h>

#include "engine_internal.h"

/* Copy a frame. If out of memory, returns NULL and counts the copy as dropped. */
static inline struct packet *copy_frame(struct engine *e, struct packet *packet)
{
    struct packet *copy = packet_take(e->pool);
    e->counters.replicas++;
    if (!copy) {
        traffic_count_drop(e, DROP_MEMORY, phv_start(packet)->ingress_port);
        return NULL;
    }
    copy->data = copy->buffer + (packet->data - packet->buffer);
    copy->length = packet->length;
    memcpy(copy->data, packet->data, packet->length);
    return copy;
}

static inline struct packet *copy_packet(struct engine *e, struct packet *packet)
{
    struct packet *copy = copy_frame(e, packet);
    if (copy)
        memcpy(copy->phv, packet->phv, program.phv_size);
    return copy;
}

/* Trace a copy of packet `original` (its number in the trace). The copy gets its own number. */
static inline void trace_copy(struct engine *e, struct packet *copy, uint32_t original,
                       enum instance_type type, const struct replica *to)
{
#ifdef MINIP4_TRACE
    uint32_t number = original ? trace_new_packet(e->context.trace) : 0;
    phv_start(copy)->trace = number;
    TRACE(&e->context, number, TRACED_COPY, original, to->port, TRACE_WORDS(type, to->rid));
#else
    (void)e, (void)copy, (void)original, (void)type, (void)to;
#endif
}

/* Send a copy of packet `original` (its number in the trace) to each replica. The original packet
 * becomes the last copy; it is already counted. */
static inline void replicate(struct engine *e, const struct replicas *to, struct packet *packet,
                      uint32_t original, enum instance_type type)
{
    for (uint32_t i = 0; i < to->count; i++) {
        struct packet *copy = i + 1 < to->count ? copy_packet(e, packet) : packet;
        if (!copy)
            continue;
        program.set_replica(copy->phv, to->item[i].rid);
        phv_start(copy)->egress_port = to->item[i].port;
        if (to->truncate_to)
            phv_start(copy)->truncate_to = to->truncate_to;
        trace_copy(e, copy, original, type, &to->item[i]);
        traffic_enqueue(e, to->item[i].port, copy);
    }
}

static inline const struct replicas *session(const struct engine *e, uint32_t number)
{
    const struct replicas *found =
        e->sessions ? e->sessions[number & (MAX_SESSIONS - 1)] : NULL;
    return found && found->count ? found : NULL;
}

static inline void learn(struct engine *e, uint32_t digest)
{
    TRACE(&e->context, phv_start(e->context.packet)->trace, TRACED_DIGEST, digest, 0, NULL, 0);
    if (!e->digests)
        e->digests = calloc(MAX_DIGESTS, sizeof *e->digests);
    if (!e->digests || e->digest_count == MAX_DIGESTS) {
        e->digests_lost++;
        return;
    }
    uint32_t at = (e->digest_first + e->digest_count) % MAX_DIGESTS;
    if (!program.digest(digest, e->context.packet->phv, &e->digests[at]))
        return;
    e->digest_count++;
    if (e->driver.notify)
        e->driver.notify(e->driver.user);
}

#endif
