/* Conversion of the kernel's timestamps (CLOCK_REALTIME) to the common clock (CLOCK_MONOTONIC). */
#ifndef MINIP4_PORTS_CLOCK_H
#define MINIP4_PORTS_CLOCK_H

#include <stdint.h>

/* Bounds of the offset between wall clock and common clock. The kernel runs both clocks at the same
 * rate, also while it slews, so the offset is constant until the wall clock is set. Each reading
 * narrows the bounds, down to a few nanoseconds. A reading that contradicts the bounds sets new
 * bounds. If all fields are 0, the offset is unknown. */
struct wall_clock {
    int64_t min_ns, max_ns;
    uint64_t read_ns; /* common clock at the latest reading */
};

/* Add a reading: the wall clock was wall_ns at a time between before_ns and after_ns of the common
 * clock. */
void wall_clock_take(struct wall_clock *clock, uint64_t before_ns, uint64_t wall_ns,
                     uint64_t after_ns);
/* Read both clocks and add the reading. */
void wall_clock_read(struct wall_clock *clock);
/* Convert the timestamp of a frame to its arrival time by the common clock. At least one reading
 * must have been added. The result is at least ahead_ns, the arrival time of the previous frame,
 * and at most now_ns. Two causes make these limits necessary: the wall clock may have been set
 * after the timestamp, and several cores may have stamped frames of one port in another order than
 * that of the ring. */
uint64_t wall_clock_arrival(const struct wall_clock *clock, uint64_t stamp_ns, uint64_t ahead_ns,
                            uint64_t now_ns);

#endif
