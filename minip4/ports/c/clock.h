/* Conversion of the kernel's timestamps (CLOCK_REALTIME) to the common clock (CLOCK_MONOTONIC). */
#ifndef MINIP4_PORTS_CLOCK_H
#define MINIP4_PORTS_CLOCK_H

#include <stdint.h>

/* Bounds of the offset between wall clock and common clock. The kernel runs both at one rate, also while
 * slewing: the offset is constant until the wall clock is set. So readings narrow it down to some nanoseconds,
 * and a contradicting reading restarts this. All zero: unknown. */
struct wall_clock {
    int64_t min_ns, max_ns;
    uint64_t read_ns; /* the common clock at the latest reading */
};

/* Adds a reading: the wall clock was wall_ns between these two times of the common clock. */
void wall_clock_take(struct wall_clock *clock, uint64_t before_ns, uint64_t wall_ns,
                     uint64_t after_ns);
/* Reads both clocks. */
void wall_clock_read(struct wall_clock *clock);
/* Returns the arrival time of a frame with this timestamp in the common clock; after a reading. It is neither
 * before the previous frame nor later than now, even if the wall clock was set after the timestamp, or if
 * several cores stamped frames of one port in another order than in its ring. */
uint64_t wall_clock_arrival(const struct wall_clock *clock, uint64_t stamp_ns, uint64_t ahead_ns,
                            uint64_t now_ns);

#endif
