/* Definitions that senders and receivers of flows share: limits, exit status, clocks, record
 * files. */
#ifndef TESTBED_FLOW_H
#define TESTBED_FLOW_H

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "flow_payload.h"

enum {
    FLOW_BATCH = 32,          /* maximum number of datagrams per system call */
    /* payload of a 9216-byte jumbo frame with Ethernet, IPv4 and UDP headers */
    FLOW_MAX_PAYLOAD = 9174,
    FLOW_UNUSABLE = 2,        /* exit status: usage error, or unsuitable environment */
    FLOW_RATE_NOT_KEPT = 3    /* exit status: the machine is too slow for the rate */
};

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Returns the current offset between CLOCK_MONOTONIC and the wall clock, which the kernel uses for
 * timestamps. An interrupt between the readings of both clocks would cause an error. Therefore, the
 * function reads the clocks several times, and uses the pair of readings that took the least time.
 * It stops early if a pair takes no longer than a system call. */
static inline uint64_t wall_clock_offset_ns(void)
{
    enum { MAX_READINGS = 100, CLOSE_NS = 200 };
    uint64_t offset_ns = 0, closest_ns = UINT64_MAX;

    for (int i = 0; i < MAX_READINGS && closest_ns > CLOSE_NS; i++) {
        uint64_t before_ns = clock_ns(CLOCK_MONOTONIC);
        uint64_t wall_ns = clock_ns(CLOCK_REALTIME);
        uint64_t took_ns = clock_ns(CLOCK_MONOTONIC) - before_ns;

        if (took_ns < closest_ns) {
            closest_ns = took_ns;
            offset_ns = wall_ns - before_ns - took_ns / 2;
        }
    }
    return offset_ns;
}

static inline void __attribute__((noreturn)) fail(const char *object)
{
    fprintf(stderr, "%s: %s\n", object, strerror(errno));
    exit(FLOW_UNUSABLE);
}

/* Opens a file of records, with a large buffer. */
static inline FILE *open_records(const char *path)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL || setvbuf(file, NULL, _IOFBF, 1 << 20) != 0)
        fail(path);
    return file;
}

/* Returns the place of count `number` in the file of `descriptor`
 * (telemark/watch/flow_counts.py). The page of --watch shows this count. Without --watch, the
 * descriptor is -1, and nothing reads the count. */
static inline volatile uint64_t *map_count(const char *descriptor, const char *number)
{
    static volatile uint64_t unread;
    size_t index = strtoul(number, NULL, 10);
    volatile uint64_t *counts;

    if (strcmp(descriptor, "-1") == 0)
        return &unread;
    counts = mmap(NULL, (index + 1) * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED,
                  atoi(descriptor), 0);
    if (counts == MAP_FAILED)
        fail("flow counts");
    counts[index] = 0; /* an earlier flow may have had the same id */
    return counts + index;
}

#endif
