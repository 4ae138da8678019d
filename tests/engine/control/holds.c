/* Holds the lock with given durations and CPU times. Prints the longest recorded duration, the
 * longest recorded CPU time, and how often the CPU time was read. */
#include <stdio.h>
#include <time.h>

#include "lock.h"

static uint64_t wall_ns, cpu_ns;
static unsigned asked;

/* Replaces the function of the C library, so that the clocks show wall_ns and cpu_ns. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    uint64_t ns = clock == CLOCK_MONOTONIC ? wall_ns : cpu_ns;
    asked += clock != CLOCK_MONOTONIC;
    *time = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    return 0;
}

int main(void)
{
    static const struct { uint64_t wall, cpu; } held[] = {{50, 40}, {45, 45}, {90, 10}, {44, 44}, {7, 7}};
    struct lock lock = {0};
    lock_create(&lock);
    for (unsigned i = 0; i < sizeof held / sizeof *held; i++) {
        lock_take(&lock, HOLD_READ);
        wall_ns += held[i].wall;
        cpu_ns += held[i].cpu;
        lock_give(&lock, 1);
    }
    const struct hold *hold = &lock.holds[HOLD_READ];
    printf("%u %u %u", (unsigned)hold->longest_ns, (unsigned)hold->longest_cpu_ns, asked);
    lock_destroy(&lock);
    return 0;
}
