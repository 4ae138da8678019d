/* The real-time driver: one thread that carries frames between interfaces and an engine.
 *
 * Each frame gets a time of its own, read when the thread takes it from its ring: so never one before
 * it arrived, and what a link has delayed is never stamped early at the next switch. The clock costs
 * some 30 ns (vDSO) of the 700 or more that a frame takes. */
#define _GNU_SOURCE
#include "ports.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "ports_queue.h"

enum { BATCH = 64, PATH_SIZE = 512 };

#define SECOND_NS UINT64_C(1000000000)
#define FLUSH_CAPTURES_NS (SECOND_NS / 2)

/* A thread that sleeps is woken by its next frame, which costs that frame's sender some microseconds:
 * more than the switch needs for a frame, so a sender faster than that would be held back to the rate
 * of waking. Therefore, when frames come fast, the thread looks at its rings a little longer. */
#define FAST_NS UINT64_C(5000)   /* the mean time between two frames, over ... */
#define WINDOW_NS UINT64_C(1000000)
#define LINGER_NS UINT64_C(10000)

struct port {
    struct nic *nic;
    struct capture *captures[2]; /* by engine_tap; NULL: not captured */
    struct capture *lost;
};

struct ports {
    struct engine *engine;
    struct packet_pool *pool;
    struct port *port[ENGINE_MAX_PORTS]; /* by number; NULL: no such port */
    uint16_t numbers[ENGINE_MAX_PORTS];
    struct pollfd polled[ENGINE_MAX_PORTS + 2]; /* the ports in order of numbers, then two events */
    unsigned count;
    uint16_t cpu_port;
    struct frame_queue *to_cpu, *from_cpu;
    struct capture_set *captures;
    uint64_t flushed_ns;
    int wake_fd;
    atomic_bool stopping;
    bool started;
    pthread_t thread;
    bool fast;               /* frames came fast in the last window */
    unsigned in_window;      /* frames since the window's start */
    uint64_t window_ns, last_frame_ns;
    uint64_t drain_ns;
    uint64_t cpu_ns;         /* of the thread, once it has ended */
    uint64_t earlier_cpu_ns; /* of the threads of those whose ports were adopted */
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* What the engine calls */

static void transmit(void *user, uint16_t number, struct packet *packet, uint64_t now_ns)
{
    (void)now_ns;
    struct ports *ports = user;
    struct port *port = number < ENGINE_MAX_PORTS ? ports->port[number] : NULL;
    if (port) {
        nic_transmit(port->nic, packet, ports->pool);
        return;
    }
    if (number == ports->cpu_port)
        frame_queue_put(ports->to_cpu, packet->data, packet->length);
    packet_give(ports->pool, packet);
}

static void tap(void *user, enum engine_tap tap, uint16_t number, const struct packet *packet,
                uint64_t now_ns)
{
    struct ports *ports = user;
    struct port *port = ports->port[number];
    if (port && port->captures[tap])
        capture_frame(port->captures[tap], now_ns, packet->data, packet->length);
}

static void link_drop(void *user, uint16_t number, uint64_t now_ns, const uint8_t *frame,
                      uint32_t length)
{
    struct ports *ports = user;
    struct port *port = ports->port[number];
    if (port && port->lost)
        capture_frame(port->lost, now_ns, frame, length);
}

/* The thread */

static unsigned receive_port(struct ports *ports, unsigned index)
{
    uint16_t number = ports->numbers[index];
    struct nic *nic = ports->port[number]->nic;
    if (ports->polled[index].revents & POLLERR)
        nic_clear_error(nic);
    ports->polled[index].revents = 0;
    unsigned received = 0;
    struct packet *packet;
    while (received < BATCH && (packet = nic_receive(nic, ports->pool))) {
        engine_receive(ports->engine, number, packet, clock_ns(CLOCK_MONOTONIC));
        received++;
    }
    return received;
}

static unsigned receive_cpu(struct ports *ports)
{
    if (ports->polled[ports->count + 1].revents)
        frame_queue_acknowledge(ports->from_cpu);
    ports->polled[ports->count + 1].revents = 0;
    for (unsigned received = 0; received < BATCH; received++) {
        struct packet *packet = packet_take(ports->pool);
        if (!packet)
            return BATCH; /* the frame stays in its queue until there is memory: come back */
        packet->length = frame_queue_take(ports->from_cpu, packet->data);
        if (!packet->length) {
            packet_give(ports->pool, packet);
            return received;
        }
        engine_receive(ports->engine, ports->cpu_port, packet, clock_ns(CLOCK_MONOTONIC));
    }
    return BATCH;
}

/* Whether to look for frames again without sleeping, after a round that took in so many. */
static bool lingers(struct ports *ports, unsigned received, uint64_t now_ns)
{
    uint64_t window_ns = now_ns - ports->window_ns;
    ports->in_window += received;
    if (window_ns >= WINDOW_NS) {
        ports->fast = ports->in_window * FAST_NS > window_ns;
        ports->in_window = 0;
        ports->window_ns = now_ns;
    }
    if (received)
        ports->last_frame_ns = now_ns;
    return received || (ports->fast && now_ns - ports->last_frame_ns < LINGER_NS);
}

/* One round; returns whether to do another at once, or else when at the latest. */
static bool work(struct ports *ports, uint64_t *next_ns)
{
    unsigned received = 0;
    engine_lock_dataplane(ports->engine);
    for (unsigned i = 0; i < ports->count; i++)
        received += receive_port(ports, i);
    if (ports->from_cpu)
        received += receive_cpu(ports);
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    *next_ns = engine_advance(ports->engine, now_ns);
    for (unsigned i = 0; i < ports->count; i++)
        nic_flush(ports->port[ports->numbers[i]]->nic, ports->pool);
    if (ports->captures && now_ns - ports->flushed_ns >= FLUSH_CAPTURES_NS) {
        capture_flush(ports->captures);
        ports->flushed_ns = now_ns;
    }
    engine_unlock(ports->engine);
    return lingers(ports, received, now_ns);
}

static void wait_until(struct ports *ports, uint64_t time_ns)
{
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t left_ns = time_ns > now_ns ? time_ns - now_ns : 0;
    struct timespec timeout = {
        .tv_sec = (time_t)(left_ns / SECOND_NS),
        .tv_nsec = (long)(left_ns % SECOND_NS),
    };
    ppoll(ports->polled, ports->count + 2, time_ns == UINT64_MAX ? NULL : &timeout, NULL);
    eventfd_t events;
    if (ports->polled[ports->count].revents)
        eventfd_read(ports->wake_fd, &events);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void *run(void *user)
{
    struct ports *ports = user;
    uint64_t next_ns;
    prctl(PR_SET_TIMERSLACK, 1);
    while (!atomic_load_explicit(&ports->stopping, memory_order_acquire)) {
        if (work(ports, &next_ns))
            continue;
        if (ports->captures)
            next_ns = earlier(next_ns, ports->flushed_ns + FLUSH_CAPTURES_NS);
        wait_until(ports, next_ns);
    }
    uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + ports->drain_ns;
    while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
        if (work(ports, &next_ns))
            continue;
        if (next_ns == UINT64_MAX)
            break;
        wait_until(ports, earlier(next_ns, end_ns));
    }
    ports->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

/* Life */

struct ports *ports_create(struct engine *engine, uint16_t cpu_port)
{
    struct ports *ports = calloc(1, sizeof *ports);
    if (!ports)
        return NULL;
    ports->engine = engine;
    ports->pool = engine_pool(engine);
    ports->cpu_port = cpu_port;
    ports->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (cpu_port != PORTS_NO_CPU) {
        ports->to_cpu = frame_queue_create();
        ports->from_cpu = frame_queue_create();
    }
    if (ports->wake_fd < 0 || (cpu_port != PORTS_NO_CPU && !(ports->to_cpu && ports->from_cpu))) {
        int error = errno;
        ports_destroy(ports, NULL, 0);
        errno = error;
        return NULL;
    }
    return ports;
}

int ports_add(struct ports *ports, uint16_t number, const char *interface)
{
    if (number >= ENGINE_DROP_PORT || ports->port[number]) {
        errno = EINVAL;
        return -1;
    }
    struct port *port = calloc(1, sizeof *port);
    if (!port)
        return -1;
    port->nic = nic_open(interface);
    if (!port->nic) {
        int error = errno;
        free(port);
        errno = error;
        return -1;
    }
    ports->port[number] = port;
    ports->polled[ports->count] = (struct pollfd){.fd = nic_fd(port->nic), .events = POLLIN};
    ports->numbers[ports->count++] = number;
    return 0;
}

/* Opens folder/<interface>_<what>.pcap; NULL with errno set. */
static struct capture *open_capture(struct ports *ports, struct port *port, const char *folder,
                                    const char *what)
{
    char path[PATH_SIZE];
    int length = snprintf(path, sizeof path, "%s/%s_%s.pcap", folder, nic_name(port->nic), what);
    if (length >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    if (!ports->captures && !(ports->captures = capture_set_create()))
        return NULL;
    return capture_open(ports->captures, path);
}

int ports_capture(struct ports *ports, const char *folder)
{
    for (unsigned i = 0; i < ports->count; i++) {
        struct port *port = ports->port[ports->numbers[i]];
        port->captures[TAP_IN] = open_capture(ports, port, folder, "in");
        if (!port->captures[TAP_IN])
            return -1;
        port->captures[TAP_OUT] = open_capture(ports, port, folder, "out");
        if (!port->captures[TAP_OUT])
            return -1;
    }
    return 0;
}

int ports_capture_lost(struct ports *ports, const char *folder)
{
    for (unsigned i = 0; i < ports->count; i++) {
        struct port *port = ports->port[ports->numbers[i]];
        port->lost = open_capture(ports, port, folder, "lost");
        if (!port->lost)
            return -1;
    }
    return 0;
}

/* Has the engine call this driver, and its ports up. */
static void attach(struct ports *ports)
{
    struct engine_driver driver = {.user = ports, .transmit = transmit, .link_drop = link_drop};
    for (unsigned i = 0; i < ports->count; i++)
        if (ports->port[ports->numbers[i]]->captures[TAP_IN])
            driver.tap = tap;
    engine_set_driver(ports->engine, &driver);
    for (unsigned i = 0; i < ports->count; i++)
        engine_set_port(ports->engine, ports->numbers[i], true);
    if (ports->cpu_port != PORTS_NO_CPU)
        engine_set_port(ports->engine, ports->cpu_port, true);
}

int ports_start(struct ports *ports)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    attach(ports);
    int cpu_fd = ports->from_cpu ? frame_queue_fd(ports->from_cpu) : -1; /* ppoll() skips -1 */
    ports->polled[ports->count] = (struct pollfd){.fd = ports->wake_fd, .events = POLLIN};
    ports->polled[ports->count + 1] = (struct pollfd){.fd = cpu_fd, .events = POLLIN};
    ports->flushed_ns = clock_ns(CLOCK_MONOTONIC);

    sigset_t others, before; /* the main thread's business: all but a crash of this one */
    sigfillset(&others);
    for (unsigned i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigdelset(&others, crashes[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    errno = pthread_create(&ports->thread, NULL, run, ports);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    ports->started = !errno;
    if (ports->started)
        pthread_setname_np(ports->thread, "minip4-ports");
    return ports->started ? 0 : -1;
}

int ports_stop(struct ports *ports, uint64_t drain_ns)
{
    ports->drain_ns = drain_ns;
    atomic_store(&ports->stopping, true);
    eventfd_write(ports->wake_fd, 1);
    errno = pthread_join(ports->thread, NULL);
    ports->started = false;
    return errno ? -1 : 0;
}

void ports_wake(struct ports *ports)
{
    eventfd_write(ports->wake_fd, 1);
}

int ports_destroy(struct ports *ports, char *error, size_t error_size)
{
    engine_set_driver(ports->engine, &(struct engine_driver){0});
    int result = ports->captures ? capture_set_close(ports->captures, error, error_size) : 0;
    for (unsigned i = 0; i < ports->count; i++) {
        nic_close(ports->port[ports->numbers[i]]->nic);
        free(ports->port[ports->numbers[i]]);
    }
    frame_queue_destroy(ports->to_cpu);
    frame_queue_destroy(ports->from_cpu);
    if (ports->wake_fd >= 0)
        close(ports->wake_fd);
    free(ports);
    return result;
}

void ports_adopt(struct ports *ports, struct ports *old)
{
    memcpy(ports->port, old->port, sizeof ports->port);
    memcpy(ports->numbers, old->numbers, sizeof ports->numbers);
    memcpy(ports->polled, old->polled, sizeof ports->polled);
    ports->count = old->count;
    frame_queue_destroy(ports->to_cpu);
    frame_queue_destroy(ports->from_cpu);
    ports->to_cpu = old->to_cpu;
    ports->from_cpu = old->from_cpu;
    ports->captures = old->captures;
    ports->earlier_cpu_ns = old->earlier_cpu_ns + old->cpu_ns;
    old->count = 0;
    old->to_cpu = old->from_cpu = NULL;
    old->captures = NULL;
}

/* What others ask */

void ports_counters(struct ports *ports, struct ports_counters *out)
{
    clockid_t clock;
    *out = (struct ports_counters){.cpu_ns = ports->earlier_cpu_ns + ports->cpu_ns};
    if (ports->started && !pthread_getcpuclockid(ports->thread, &clock))
        out->cpu_ns += clock_ns(clock);
    if (!ports->started)
        for (unsigned i = 0; i < ports->count; i++)
            out->unread += nic_unread(ports->port[ports->numbers[i]]->nic);
    if (ports->to_cpu) {
        out->to_cpu_drops = frame_queue_drops(ports->to_cpu);
        out->from_cpu_drops = frame_queue_drops(ports->from_cpu);
    }
}

int ports_port_counters(struct ports *ports, uint16_t number, struct nic_counters *out)
{
    struct port *port = number < ENGINE_MAX_PORTS ? ports->port[number] : NULL;
    if (!port)
        return -1;
    engine_lock(ports->engine);
    *out = *nic_counters(port->nic);
    engine_unlock(ports->engine);
    return 0;
}

int ports_cpu_fd(struct ports *ports)
{
    return frame_queue_fd(ports->to_cpu);
}

void ports_cpu_acknowledge(struct ports *ports)
{
    frame_queue_acknowledge(ports->to_cpu);
}

uint32_t ports_cpu_read(struct ports *ports, uint8_t *room)
{
    return frame_queue_take(ports->to_cpu, room);
}

int ports_cpu_write(struct ports *ports, const uint8_t *frame, uint32_t length)
{
    if (length > PACKET_MAX_FRAME)
        return -1;
    return frame_queue_put(ports->from_cpu, frame, length) ? 0 : -1;
}
