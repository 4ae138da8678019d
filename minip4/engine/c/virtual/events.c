/* The event queue: a tournament among all elements. A change replays one path from leaf to root,
 * whose length does not depend on the times; the upper rounds stay in the cache. */
#include "events.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64 };

struct events {
    uint32_t count, room; /* room: a power of two */
    uint64_t *due_ns;     /* by element */
    uint32_t *winner;     /* of each match: 1 the final, 2 and 3 the semifinals, ... */
};

static uint32_t earlier(const struct events *events, uint32_t a, uint32_t b)
{
    /* a < b whenever this is called */
    return events->due_ns[b] < events->due_ns[a] ? b : a;
}

static uint32_t contender(const struct events *events, uint32_t match)
{
    return match < events->room ? events->winner[match] : match - events->room;
}

static bool make_room(struct events *events, uint32_t room)
{
    uint64_t *due_ns = realloc(events->due_ns, room * sizeof *due_ns);
    if (!due_ns)
        return false;
    events->due_ns = due_ns;
    uint32_t *winner = realloc(events->winner, room * sizeof *winner);
    if (!winner)
        return false;
    events->winner = winner;
    for (uint32_t i = events->room; i < room; i++)
        due_ns[i] = UINT64_MAX;
    events->room = room;
    for (uint32_t match = room - 1; match; match--)
        winner[match] = earlier(events, contender(events, 2 * match),
                                contender(events, 2 * match + 1));
    return true;
}

struct events *events_create(void)
{
    struct events *events = calloc(1, sizeof *events);
    if (events && !make_room(events, FIRST_ROOM)) {
        events_destroy(events);
        return NULL;
    }
    return events;
}

void events_destroy(struct events *events)
{
    if (!events)
        return;
    free(events->due_ns);
    free(events->winner);
    free(events);
}

uint32_t events_add(struct events *events)
{
    if (events->count == events->room && !make_room(events, 2 * events->room))
        return UINT32_MAX;
    return events->count++;
}

void events_set(struct events *events, uint32_t element, uint64_t due_ns)
{
    if (events->due_ns[element] == due_ns)
        return;
    events->due_ns[element] = due_ns;
    for (uint32_t match = (element + events->room) / 2; match; match /= 2)
        events->winner[match] = earlier(events, contender(events, 2 * match),
                                        contender(events, 2 * match + 1));
}

uint64_t events_next(const struct events *events, uint32_t *element)
{
    *element = events->winner[1];
    return events->due_ns[*element];
}
