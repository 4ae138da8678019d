/* From the kernel's stamps of frames (CLOCK_REALTIME) to the common clock (CLOCK_MONOTONIC). */
#ifndef MINIP4_PORTS_CLOCK_H
#define MINIP4_PORTS_CLOCK_H

#include <stdint.h>

/* Between what the wall clock is ahead of the common one. The kernel runs both at one rate, also while
 * it is slewed: the difference stays constant until the wall clock is set. So what readings say
 * of it is narrowed down to some nanoseconds, and one that contradicts the earlier ones restarts this.
 * All zero: nothing is known yet. */
struct wall_clock {
    int64_t min_ns, max_ns;
    uint64_t read_ns; /* the common clock at the latest reading */
};

/* Takes in a reading: the wall clock showed wall_ns between these two times of the common clock. */
void wall_clock_take(struct wall_clock *clock, uint64_t before_ns, uint64_t wall_ns,
                     uint64_t after_ns);
/* Reads both clocks. */
void wall_clock_read(struct wall_clock *clock);
/* When a frame with this stamp arrived, by the common clock; after a reading. It is not before the one
 * ahead of it, nor later than now: also where the wall clock was set after the stamp, or where cores
 * that stamped for one port did so in another order than they filled its ring. */
uint64_t wall_clock_arrival(const struct wall_clock *clock, uint64_t stamp_ns, uint64_t ahead_ns,
                            uint64_t now_ns);

#endif
