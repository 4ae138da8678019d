/* What flows sent and received. Datagrams that arrive are noted one after the other, whatever their
 * flow, and sorted by flow later: so that thousands of flows need no more of the cache than one. */
#include <endian.h>
#include <stdlib.h>

#include "virtual_internal.h"

static const size_t block_size = RECEPTION_BLOCK * sizeof(struct reception);

static struct reception *reception_at(const struct virtual *v, uint32_t number)
{
    return &v->reception[number / RECEPTION_BLOCK][number % RECEPTION_BLOCK];
}

void receptions_free(struct virtual *v)
{
    for (uint32_t i = 0; i < RECEPTION_BLOCKS; i++)
        memory_give(v->reception[i], block_size);
}

/* Sets room for `more` records; false: no memory. */
static bool make_room(struct flow *flow, uint64_t more)
{
    uint64_t needed = flow->result.received_count + more;
    if (needed <= flow->received_room)
        return true;
    uint64_t room = needed > 2 * flow->received_room ? needed : 2 * flow->received_room;
    struct virtual_received *received = realloc(flow->received, room * sizeof *received);
    if (!received)
        return false;
    flow->received = received;
    flow->received_room = room;
    return true;
}

/* Room in each flow for what was noted of it. */
static bool make_rooms(struct virtual *v)
{
    uint64_t *counts = calloc(v->sources + 1, sizeof *counts);
    if (!counts)
        return false;
    for (uint32_t i = 0; i < v->receptions; i++)
        counts[reception_at(v, i)->flow]++;
    bool is_done = true;
    for (uint32_t i = 0; i < v->sources && is_done; i++)
        is_done = !counts[i] || !v->flow[i] || make_room(v->flow[i], counts[i]);
    free(counts);
    return is_done;
}

/* Hands what was noted to the flows, but for those that were removed since. False: no memory. */
static bool sort(struct virtual *v)
{
    if (!make_rooms(v))
        return false;
    for (uint32_t i = 0; i < v->receptions; i++) {
        const struct reception *seen = reception_at(v, i);
        struct flow *flow = v->flow[seen->flow];
        if (flow)
            flow->received[flow->result.received_count++] =
                (struct virtual_received){seen->sequence, seen->sent_ns, seen->received_ns};
    }
    v->receptions = 0;
    return true;
}

/* NULL: no memory. */
static struct reception *next_reception(struct virtual *v)
{
    if (v->receptions == RECEPTION_BLOCK * RECEPTION_BLOCKS && !sort(v))
        return NULL;
    struct reception **block = &v->reception[v->receptions / RECEPTION_BLOCK];
    if (!*block && !(*block = memory_take(block_size)))
        return NULL;
    return reception_at(v, v->receptions++);
}

void flow_receive(struct virtual *v, const struct listener *listener, uint8_t tos,
                  const uint8_t *bytes, uint32_t length)
{
    const struct flow_payload *payload = (const struct flow_payload *)bytes;
    uint32_t flow = listener->flow - 1;
    if (length != listener->payload || be16toh(payload->flow) != listener->id) {
        v->flow[flow]->result.foreign++;
        return;
    }
    struct reception *next = next_reception(v);
    if (!next) {
        v->is_short = true;
        return;
    }
    *next = (struct reception){be64toh(payload->sequence), be64toh(payload->sent_ns), v->now_ns,
                               flow};
    if (tos >> 2 != listener->tos >> 2)
        v->flow[flow]->result.dscp_changed++;
}

/* A flow always keeps its schedule: what it sent, and when, need not be noted. */
static bool note_sent(struct virtual *v, uint32_t number)
{
    struct flow *flow = v->flow[number];
    uint64_t count = v->source[number].next;
    struct virtual_sent *sent = realloc(flow->sent, (count + 1) * sizeof *sent);
    if (!sent)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t due_ns = source_due_ns(&v->source[number], i);
        sent[i] = (struct virtual_sent){i, due_ns > flow->added_ns ? due_ns : flow->added_ns};
    }
    flow->sent = sent;
    flow->result.sent_count = count;
    return true;
}

bool virtual_flow_result(struct virtual *v, uint32_t number, struct virtual_flow_result *out)
{
    if (v->is_short || !sort(v) || !note_sent(v, number))
        return false;
    *out = v->flow[number]->result;
    out->sent = v->flow[number]->sent;
    out->received = v->flow[number]->received;
    return true;
}
