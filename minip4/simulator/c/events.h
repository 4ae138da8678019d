/* An event queue: a heap ordered by time. The four children of a node share a cache line. */
#ifndef MINIP4_EVENTS_H
#define MINIP4_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct event {
    uint64_t time_ns;
    uint32_t order;
    uint32_t what; /* value for the caller */
};

/* the first event and its four children; the second event is one of these children */
enum { EVENTS_SOON = 5 };

/* Order of events at the same time: if `tie` is set, it decides (a result below 0 means that `a`
 * comes first). If `tie` is not set or returns 0, the event with the lower `order` comes first;
 * `order` may wrap around. */
struct events {
    struct event *heap; /* heap[0] is the first event */
    uint32_t count, room;
    int (*tie)(const struct events *events, uint32_t a, uint32_t b);
};

/* Add an event. Returns false if out of memory. */
bool events_add(struct events *events, struct event event);
void events_remove_first(struct events *events);
/* Remove the first event and add another event. */
void events_replace_first(struct events *events, struct event event);
void events_free(struct events *events);

static inline uint64_t events_next_ns(const struct events *events)
{
    return events->count ? events->heap[0].time_ns : UINT64_MAX;
}

#endif
