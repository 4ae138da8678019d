/* The real-time driver: one thread that moves frames between interfaces and an engine.
 *
 * The arrival time of a frame is the kernel's timestamp, which the kernel sets during the sender's
 * call. The frame is processed when the thread reads it from the ring. The interval from arrival to
 * processing counts as waiting in this switch. So the delay of a link is exact, however late this
 * thread wakes up. Frames of all ports are processed in order of arrival. Each frame costs at least
 * 700 ns. About 30 ns of them are for reading the clock (vDSO). */
#define _GNU_SOURCE
#include "ports_internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

enum { BATCH = 64 };

#define FLUSH_CAPTURES_NS (SECOND_NS / 2)
/* maximum age of the clock reading, since the wall clock may be set at any time */
#define READ_CLOCKS_NS UINT64_C(1000000)

/* If the thread sleeps, the next frame wakes it. This costs the sender of the frame a few
 * microseconds. The switch needs less time per frame, so the wake-ups would limit the rate of the
 * sender. Therefore, while frames arrive fast, the thread polls its rings a little longer before it
 * sleeps. */
#define FAST_NS UINT64_C(5000)   /* limit of the mean time between two frames, over ... */
#define WINDOW_NS UINT64_C(1000000)
#define LINGER_NS UINT64_C(10000)

/* Callbacks of the engine */

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

/* The driver's thread */

static bool receive_frame(struct ports *ports, uint16_t number)
{
    struct port *port = ports->port[number];
    struct packet *packet = nic_receive(port->nic, ports->pool);
    if (!packet)
        return false;
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    port->arrived_ns =
        wall_clock_arrival(&ports->wall, packet->time_ns, port->arrived_ns, now_ns);
    if (port->taken)
        capture_frame(port->taken, now_ns, packet->data, packet->length);
    engine_receive(ports->engine, number, packet, port->arrived_ns, now_ns);
    return true;
}

/* Return the index (in `waiting`) of the port with the earliest queued frame. */
static unsigned first_come(const struct ports *ports, const uint16_t *waiting, unsigned count)
{
    unsigned first = 0;
    uint64_t first_ns = UINT64_MAX, stamp_ns;
    for (unsigned i = 0; count > 1 && i < count; i++)
        if (nic_peek(ports->port[waiting[i]]->nic, &stamp_ns) && stamp_ns < first_ns) {
            first_ns = stamp_ns;
            first = i;
        }
    return first;
}

/* Receive the queued frames of all ports in order of arrival, at most BATCH frames per port. */
static unsigned receive_ports(struct ports *ports)
{
    uint16_t waiting[ENGINE_MAX_PORTS];
    unsigned count = 0, received = 0;
    uint64_t stamp_ns;
    for (unsigned i = 0; i < ports->count; i++) {
        struct port *port = ports->port[ports->numbers[i]];
        if (ports->polled[i].revents & POLLERR)
            nic_clear_error(port->nic);
        ports->polled[i].revents = 0;
        port->left = BATCH;
        if (nic_peek(port->nic, &stamp_ns))
            waiting[count++] = ports->numbers[i];
    }
    while (count) {
        unsigned place = first_come(ports, waiting, count);
        bool is_received = receive_frame(ports, waiting[place]);
        received += is_received;
        if (!is_received || !--ports->port[waiting[place]]->left)
            waiting[place] = waiting[--count];
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
            return BATCH; /* out of memory: the frame stays in its queue until the next round */
        packet->length = frame_queue_take(ports->from_cpu, packet->data);
        if (!packet->length) {
            packet_give(ports->pool, packet);
            return received;
        }
        uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
        engine_receive(ports->engine, ports->cpu_port, packet, now_ns, now_ns);
    }
    return BATCH;
}

/* Return whether to poll again without sleeping, after a round that received `received` frames. */
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

/* Switch to recreated interfaces, after reading the rings of the deleted ones. */
static void reopen(struct ports *ports)
{
    for (unsigned i = 0; i < ports->count; i++) {
        struct port *port = ports->port[ports->numbers[i]];
        if (!atomic_exchange(&port->reopening, false))
            continue;
        while (receive_frame(ports, ports->numbers[i]))
            ;
        nic_flush(port->nic, ports->pool);
        port->nic = nic_reopen(port->nic, ports->expected);
        ports->polled[i].fd = nic_fd(port->nic);
    }
}

/* Do one round. Returns true if the next round must follow immediately. Otherwise, *next_ns is the
 * time when it is due. */
static bool work(struct ports *ports, uint64_t *next_ns)
{
    engine_lock_dataplane(ports->engine);
    if (atomic_load_explicit(&ports->reopening, memory_order_relaxed)) {
        atomic_store(&ports->reopening, false);
        reopen(ports);
    }
    unsigned received = receive_ports(ports);
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
    engine_unlock_dataplane(ports->engine);
    if (now_ns - ports->wall.read_ns >= READ_CLOCKS_NS)
        wall_clock_read(&ports->wall);
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
    bool sleeps = true;
    for (unsigned i = 0; i < ports->memory_links; i++)
        sleeps &= memory_link_sleep(ports->memory[i]);
    if (!sleeps)
        timeout = (struct timespec){0};
    ppoll(ports->polled, ports->count + 2 + ports->memory_links,
          sleeps && time_ns == UINT64_MAX ? NULL : &timeout, NULL);
    for (unsigned i = 0; i < ports->memory_links; i++)
        memory_link_awake(ports->memory[i], ports->polled[ports->count + 2 + i].revents);
    wall_clock_read(&ports->wall);
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
    wall_clock_read(&ports->wall);
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

/* Attach this driver to the engine, and set its ports up. */
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
    /* ppoll() ignores a descriptor of -1 */
    int cpu_fd = ports->from_cpu ? frame_queue_fd(ports->from_cpu) : -1;
    ports->polled[ports->count] = (struct pollfd){.fd = ports->wake_fd, .events = POLLIN};
    ports->polled[ports->count + 1] = (struct pollfd){.fd = cpu_fd, .events = POLLIN};
    for (unsigned i = 0; i < ports->memory_links; i++)
        ports->polled[ports->count + 2 + i] =
            (struct pollfd){.fd = memory_link_fd(ports->memory[i]), .events = POLLIN};
    ports->flushed_ns = clock_ns(CLOCK_MONOTONIC);

    /* the main thread handles all signals except those of a crash of this thread */
    sigset_t others, before;
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
