/* Frames in flight on links with a delay. */
#include <stdlib.h>
#include <string.h>

#include "virtual_internal.h"

/* Compare frames with the same due time, see struct flights. */
static int tie(const struct events *events, uint32_t place_a, uint32_t place_b)
{
    /* `events` is the first member of struct flights */
    const struct flights *flights = (const struct flights *)events;
    const struct arrival *a = &flights->flight[place_a], *b = &flights->flight[place_b];
    if (a->sent_ns != b->sent_ns)
        return a->sent_ns < b->sent_ns ? -1 : 1;
    if (a->to != b->to)
        return a->to->number < b->to->number ? -1 : 1;
    return (int)a->port - (int)b->port;
}

static bool grow(void *array, size_t size)
{
    void **start = array, *made = realloc(*start, size);
    if (made)
        *start = made;
    return made != NULL;
}

bool flights_make_room(struct flights *flights)
{
    uint32_t room = flights->room ? 2 * flights->room : 64;
    if (!grow(&flights->flight, room * sizeof *flights->flight) ||
        !grow(&flights->free, room * sizeof *flights->free))
        return false;
    for (uint32_t i = flights->room; i < room; i++)
        flights->free[i] = i;
    flights->room = room;
    flights->events.tie = tie;
    return true;
}

void flights_free(struct flights *flights)
{
    events_free(&flights->events);
    free(flights->flight);
    free(flights->free);
    *flights = (struct flights){0};
}
