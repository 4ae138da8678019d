/* The event queue: a heap ordered by time, in which each node has four children. */
#include "events.h"

#include "memory.h"

/* The heap starts at OFFSET in memory. So siblings share a cache line. */
enum { FIRST_ROOM = 64, CHILDREN = 4, OFFSET = CHILDREN - 1 };

static bool is_first_of_two(const struct events *events, struct event a, struct event b)
{
    int tie = events->tie ? events->tie(events, a.what, b.what) : 0;
    return tie ? tie < 0 : (int32_t)(a.order - b.order) < 0;
}

static inline bool comes_before(const struct events *events, struct event a, struct event b)
{
    return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : is_first_of_two(events, a, b);
}

static size_t size_of(uint32_t room)
{
    return (OFFSET + room) * sizeof(struct event);
}

static struct event *start_of(const struct events *events)
{
    return events->heap ? events->heap - OFFSET : NULL;
}

static bool make_room(struct events *events)
{
    uint32_t room = events->room ? 2 * events->room : FIRST_ROOM;
    struct event *start =
        memory_resize(start_of(events), events->room ? size_of(events->room) : 0, size_of(room));
    if (!start)
        return false;
    events->heap = start + OFFSET;
    events->room = room;
    return true;
}

void events_free(struct events *events)
{
    memory_give(start_of(events), size_of(events->room));
    *events = (struct events){.tie = events->tie};
}

bool events_add(struct events *events, struct event event)
{
    if (events->count == events->room && !make_room(events))
        return false;
    uint32_t at = events->count++;
    while (at && comes_before(events, event, events->heap[(at - 1) / CHILDREN])) {
        events->heap[at] = events->heap[(at - 1) / CHILDREN];
        at = (at - 1) / CHILDREN;
    }
    events->heap[at] = event;
    return true;
}

static uint32_t first_child(const struct events *events, uint32_t at)
{
    uint32_t child = CHILDREN * at + 1, end = child + CHILDREN, first = child;
    end = end < events->count ? end : events->count;
    for (uint32_t i = child + 1; i < end; i++)
        first = comes_before(events, events->heap[i], events->heap[first]) ? i : first;
    return first;
}

void events_replace_first(struct events *events, struct event event)
{
    uint32_t at = 0;
    while (CHILDREN * at + 1 < events->count) {
        uint32_t child = first_child(events, at);
        if (!comes_before(events, events->heap[child], event))
            break;
        events->heap[at] = events->heap[child];
        at = child;
    }
    events->heap[at] = event;
}

void events_remove_first(struct events *events)
{
    struct event last = events->heap[--events->count];
    if (events->count)
        events_replace_first(events, last);
}
