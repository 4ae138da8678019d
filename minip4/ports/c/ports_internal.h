/* Private structures of the driver, shared by its source files. */
#ifndef MINIP4_PORTS_INTERNAL_H
#define MINIP4_PORTS_INTERNAL_H

#include "ports.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "capture.h"
#include "clock.h"
#include "queue.h"

#define SECOND_NS UINT64_C(1000000000)

struct port {
    struct nic *nic;
    struct capture *captures[2]; /* index: direction (enum engine_tap); NULL if not captured */
    struct capture *lost, *taken;
    uint64_t arrived_ns; /* arrival time of the latest frame */
    unsigned left;       /* number of frames that this round may still receive */
    atomic_bool reopening; /* the interface was deleted and recreated */
};

struct ports {
    struct engine *engine;
    struct packet_pool *pool;
    struct port *port[ENGINE_MAX_PORTS]; /* index: port number; NULL if there is no such port */
    uint16_t numbers[ENGINE_MAX_PORTS];
    /* the ports in order of numbers, then two event descriptors, then memory links */
    struct pollfd polled[2 * ENGINE_MAX_PORTS + 2];
    struct memory_link *memory[ENGINE_MAX_PORTS]; /* in the order of their descriptors */
    unsigned memory_links;
    unsigned count, expected; /* current and final number of ports */
    uint16_t cpu_port;
    struct frame_queue *to_cpu, *from_cpu;
    struct capture_set *captures;
    uint64_t flushed_ns;
    struct wall_clock wall;
    int wake_fd;
    atomic_bool stopping;
    atomic_bool reopening; /* at least one port must be reopened */
    bool started;
    pthread_t thread;
    bool fast;               /* frames arrived fast in the last window */
    unsigned in_window;      /* frames since the start of the window */
    uint64_t window_ns, last_frame_ns;
    uint64_t drain_ns;
    uint64_t cpu_ns;         /* CPU time of the thread, set when the thread has ended */
    uint64_t earlier_cpu_ns; /* CPU time of earlier drivers, whose ports this one adopted */
};

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

#endif
