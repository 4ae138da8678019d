/* Records of flows. Received datagrams are recorded in order of arrival and later sorted by flow.
 * So thousands of flows need no more cache than a single flow. */
#include <stdlib.h>

#include "byte_order.h"
#include "virtual_internal.h"

static const size_t block_size = RECEPTION_BLOCK * sizeof(struct reception);

static struct reception *reception_at(const struct partition *p, uint32_t number)
{
    return &p->reception[number / RECEPTION_BLOCK][number % RECEPTION_BLOCK];
}

void receptions_free(struct partition *p)
{
    for (uint32_t i = 0; i < RECEPTION_BLOCKS; i++)
        memory_give(p->reception[i], block_size);
}

/* Allocate memory for `more` records of a flow. Returns false if out of memory. */
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

/* Allocate memory in each flow for its records. */
static bool make_rooms(struct partition *p)
{
    const struct virtual *v = p->v;
    uint64_t *counts = calloc(v->sources + 1, sizeof *counts);
    if (!counts)
        return false;
    for (uint32_t i = 0; i < p->receptions; i++)
        counts[reception_at(p, i)->flow]++;
    bool is_done = true;
    for (uint32_t i = 0; i < v->sources && is_done; i++)
        is_done = !counts[i] || !v->flow[i] || make_room(v->flow[i], counts[i]);
    free(counts);
    return is_done;
}

bool receptions_sort(struct partition *p)
{
    if (!make_rooms(p))
        return false;
    for (uint32_t i = 0; i < p->receptions; i++) {
        const struct reception *seen = reception_at(p, i);
        struct flow *flow = p->v->flow[seen->flow];
        if (flow)
            flow->received[flow->result.received_count++] =
                (struct virtual_received){seen->sequence, seen->sent_ns, seen->received_ns};
    }
    p->receptions = 0;
    return true;
}

/* Return the next free record. Returns NULL if out of memory. */
static struct reception *next_reception(struct partition *p)
{
    if (p->receptions == RECEPTION_BLOCK * RECEPTION_BLOCKS && !receptions_sort(p))
        return NULL;
    struct reception **block = &p->reception[p->receptions / RECEPTION_BLOCK];
    if (!*block && !(*block = memory_take(block_size)))
        return NULL;
    return reception_at(p, p->receptions++);
}

void flow_receive(struct partition *p, const struct listener *listener, uint8_t tos,
                  const uint8_t *bytes, uint32_t length)
{
    const struct flow_payload *payload = (const struct flow_payload *)bytes;
    uint32_t flow = listener->flow - 1;
    if (length != listener->payload || be16toh(payload->flow) != listener->id) {
        p->v->flow[flow]->result.foreign++;
        return;
    }
    struct reception *next = next_reception(p);
    if (!next) {
        p->is_short = true;
        return;
    }
    *next = (struct reception){be64toh(payload->sequence), be64toh(payload->sent_ns), p->now_ns,
                               flow};
    if (tos >> 2 != listener->tos >> 2)
        p->v->flow[flow]->result.dscp_changed++;
}

/* Create the records of sent datagrams from the schedule, because a flow in virtual time always
 * sends at the scheduled times. */
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

bool virtual_sort(struct virtual *v)
{
    bool is_done = true;
    for (uint32_t i = 0; i < v->partitions; i++)
        is_done &= receptions_sort(v->partition[i]);
    return is_done;
}

bool virtual_flow_result(struct virtual *v, uint32_t number, struct virtual_flow_result *out)
{
    if (virtual_is_short(v) || !virtual_sort(v) || !note_sent(v, number))
        return false;
    *out = v->flow[number]->result;
    out->sent = v->flow[number]->sent;
    out->received = v->flow[number]->received;
    return true;
}

void virtual_flow_counts(struct virtual *v, uint32_t number, uint64_t *sent, uint64_t *received)
{
    virtual_sort(v);
    *sent = v->source[number].next;
    *received = v->flow[number]->result.received_count;
}
