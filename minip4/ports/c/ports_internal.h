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
    struct capture *captures[2]; /* by engine_tap; NULL: not captured */
    struct capture *lost, *taken;
    uint64_t arrived_ns; /* the latest frame */
    unsigned left;       /* frames that may be received in this round */
    atomic_bool reopening; /* its interface was deleted and recreated */
};

struct ports {
    struct engine *engine;
    struct packet_pool *pool;
    struct port *port[ENGINE_MAX_PORTS]; /* by number; NULL: no such port */
    uint16_t numbers[ENGINE_MAX_PORTS];
    struct pollfd polled[ENGINE_MAX_PORTS + 2]; /* the ports in order of numbers, then two events */
    unsigned count, expected; /* ports there are; and that there will be */
    uint16_t cpu_port;
    struct frame_queue *to_cpu, *from_cpu;
    struct capture_set *captures;
    uint64_t flushed_ns;
    struct wall_clock wall;
    int wake_fd;
    atomic_bool stopping;
    atomic_bool reopening; /* some port is */
    bool started;
    pthread_t thread;
    bool fast;               /* frames came fast in the last window */
    unsigned in_window;      /* frames since the window's start */
    uint64_t window_ns, last_frame_ns;
    uint64_t drain_ns;
    uint64_t cpu_ns;         /* of the thread, once it has ended */
    uint64_t earlier_cpu_ns; /* of the threads of those whose ports were adopted */
};

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

#endif
