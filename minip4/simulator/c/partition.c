/* Creation and destruction of partitions. */
#include <stdlib.h>

#include "threads.h"

enum { FIRST_ARRIVALS = 256 };

struct partition *partition_create(struct virtual *v, uint16_t number)
{
    struct partition *p = memory_take(sizeof *p);
    if (!p)
        return NULL;
    p->v = v;
    p->number = number;
    p->now_ns = v->now_ns;
    p->end_control = &p->first_control;
    p->end_inbox = &p->first_inbox;
    p->arrival_room = FIRST_ARRIVALS;
    p->arrivals = malloc(FIRST_ARRIVALS * sizeof *p->arrivals);
    p->pool = number ? packet_pool_another(v->partition[0]->pool) : packet_pool_create(0);
    if (!p->arrivals || !p->pool) {
        partition_free(p);
        return NULL;
    }
    packet_pool_tell(p->pool, &p->is_short);
    return p;
}

struct moment partition_moment(struct partition *p)
{
    const struct flights *flights = &p->flights;
    const struct events *others[] = {&p->wakes, &p->sends, &p->timers};
    struct moment moment = {.time_ns = partition_next_ns(p)};
    if (events_next_ns(&flights->events) == moment.time_ns) {
        if (!flights->count)
            return moment;
        const struct arrival *first = &flights->flight[flights->events.heap[0].what];
        moment.sent_ns = first->sent_ns;
        moment.number = (uint64_t)first->to->number << 16 | first->port;
        return moment;
    }
    while (events_next_ns(others[moment.kind++]) != moment.time_ns)
        ;
    moment.number = others[moment.kind - 1]->heap[0].order;
    return moment;
}

void partition_hand_over(struct partition *from, struct partition *to)
{
    if (from == to)
        return;
    if (from->first_control) {
        *to->end_control = from->first_control;
        to->end_control = from->end_control;
        from->first_control = NULL;
        from->end_control = &from->first_control;
    }
    if (from->first_inbox) {
        *to->end_inbox = from->first_inbox;
        to->end_inbox = from->end_inbox;
        from->first_inbox = NULL;
        from->end_inbox = &from->first_inbox;
    }
}

void partition_free(struct partition *p)
{
    flights_free(&p->flights);
    events_free(&p->wakes);
    events_free(&p->sends);
    events_free(&p->timers);
    free(p->arrivals);
    free(p->source_fetched);
    memory_give(p->trail, p->v->source_room * sizeof *p->trail);
    receptions_free(p);
    if (p->pool)
        packet_pool_destroy(p->pool);
    memory_give(p, sizeof *p);
}
