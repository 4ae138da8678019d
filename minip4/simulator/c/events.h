/* An event queue: a heap of times, four children to a node, each four in one cache line. */
#ifndef MINIP4_EVENTS_H
#define MINIP4_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct event {
    uint64_t time_ns;
    uint32_t order;
    uint32_t what; /* for the caller */
};

enum { EVENTS_SOON = 5 /* the first event, and those of which one comes next */ };

/* Among events at the same time, `tie` (if any) decides the order (less than 0: `a` comes first); without it, or
 * if it returns 0, the lower `order` comes first, which may wrap around. */
struct events {
    struct event *heap; /* the first event first */
    uint32_t count, room;
    int (*tie)(const struct events *events, uint32_t a, uint32_t b);
};

/* False: out of memory. */
bool events_add(struct events *events, struct event event);
void events_remove_first(struct events *events);
/* Removes the first event, and adds another. */
void events_replace_first(struct events *events, struct event event);
void events_free(struct events *events);

static inline uint64_t events_next_ns(const struct events *events)
{
    return events->count ? events->heap[0].time_ns : UINT64_MAX;
}

#endif
