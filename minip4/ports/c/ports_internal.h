/* Private structures of the driver, shared by its source files. */
#ifndef MINIP4_PORTS_INTERNAL_H
#define MINIP4_PORTS_INTERNAL_H

#include "ports.h"

#include <stdatomic.h>
#include <time.h>

#include "capture.h"
#include "clock.h"
#include "queue.h"
#include "worker.h"

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
    struct task task; /* the first member: task functions convert it to the structure */
    struct engine *engine;
    struct packet_pool *pool;
    struct port *port[ENGINE_MAX_PORTS]; /* index: port number; NULL if there is no such port */
    uint16_t numbers[ENGINE_MAX_PORTS];
    unsigned count; /* number of ports */
    uint16_t cpu_port;
    FILE *log; /* stream for messages */
    struct frame_queue *to_cpu, *from_cpu;
    struct capture_set *captures;
    uint64_t flushed_ns;
    struct wall_clock wall;
    int epoll_fd;          /* epoll instance of the worker, or -1 */
    atomic_bool stopping;
    atomic_bool reopening; /* at least one port must be reopened */
    bool started;
    bool fast;               /* frames arrived fast in the last window */
    unsigned in_window;      /* frames since the start of the window */
    uint64_t window_ns, last_frame_ns;
    uint64_t earlier_cpu_ns; /* CPU time of earlier drivers, whose ports this one adopted */
};

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

#endif
