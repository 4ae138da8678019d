/* Conversion of the kernel's timestamps to the common clock. Each reading of both clocks narrows
 * the bounds of their offset. */
#include "ports_internal.h"

void wall_clock_take(struct wall_clock *clock, uint64_t before_ns, uint64_t wall_ns,
                     uint64_t after_ns)
{
    int64_t min_ns = (int64_t)(wall_ns - after_ns), max_ns = (int64_t)(wall_ns - before_ns);
    bool was_set = !clock->read_ns || min_ns > clock->max_ns || max_ns < clock->min_ns;
    if (was_set || min_ns > clock->min_ns)
        clock->min_ns = min_ns;
    if (was_set || max_ns < clock->max_ns)
        clock->max_ns = max_ns;
    clock->read_ns = after_ns;
}

void wall_clock_read(struct wall_clock *clock)
{
    uint64_t before_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t wall_ns = clock_ns(CLOCK_REALTIME);
    wall_clock_take(clock, before_ns, wall_ns, clock_ns(CLOCK_MONOTONIC));
}

uint64_t wall_clock_arrival(const struct wall_clock *clock, uint64_t stamp_ns, uint64_t ahead_ns,
                            uint64_t now_ns)
{
    int64_t wall_ahead_ns = clock->min_ns + (clock->max_ns - clock->min_ns) / 2;
    uint64_t arrived_ns = stamp_ns - (uint64_t)wall_ahead_ns;
    if (arrived_ns < ahead_ns)
        arrived_ns = ahead_ns;
    return arrived_ns < now_ns ? arrived_ns : now_ns;
}
