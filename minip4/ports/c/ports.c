/* The real-time driver moves frames between interfaces and an engine. It is a task of a worker
 * thread, which may have tasks for other switches.
 *
 * The arrival time of a frame is the kernel's timestamp, which the kernel sets during the sender's
 * call. The frame is processed when the thread reads it from the ring. The interval from arrival to
 * processing counts as waiting in this switch. So the delay of a link is exact, however late the
 * thread wakes up. Frames of all ports are processed in order of arrival. Each frame from and to an
 * interface costs at least 700 ns. About 30 ns of them are for reading the clock (vDSO). */
#define _GNU_SOURCE
#include "ports_internal.h"

#include <sys/epoll.h>

#include "log.h"

enum { BATCH = 64 };

#define FLUSH_CAPTURES_NS (SECOND_NS / 2)
/* maximum age of the clock reading, since the wall clock may be set at any time */
#define READ_CLOCKS_NS UINT64_C(1000000)

/* If the thread sleeps, the next frame from an interface wakes it. This costs the sender of the frame a few
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
    bool has_error = atomic_load_explicit(&ports->task.has_error, memory_order_relaxed) &&
                     atomic_exchange(&ports->task.has_error, false);
    for (unsigned i = 0; i < ports->count; i++) {
        struct port *port = ports->port[ports->numbers[i]];
        if (has_error)
            nic_clear_error(port->nic);
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

static void watch_nic(struct ports *ports, const struct nic *nic, int operation)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &ports->task};
    epoll_ctl(ports->epoll_fd, operation, nic_fd(nic), &event);
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
        watch_nic(ports, port->nic, EPOLL_CTL_DEL);
        port->nic = nic_reopen(port->nic);
        watch_nic(ports, port->nic, EPOLL_CTL_ADD);
    }
}

/* Functions of the task */

static struct ports *ports_of(struct task *task)
{
    return (struct ports *)task;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool do_round(struct task *task)
{
    struct ports *ports = ports_of(task);
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    if (start_ns - ports->wall.read_ns >= READ_CLOCKS_NS)
        wall_clock_read(&ports->wall);
    log_to(ports->log);
    engine_lock_dataplane(ports->engine);
    if (atomic_load_explicit(&ports->reopening, memory_order_relaxed)) {
        atomic_store(&ports->reopening, false);
        reopen(ports);
    }
    unsigned received = receive_ports(ports);
    if (ports->from_cpu)
        received += receive_cpu(ports);
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    task->frames += received + (task->due_ns <= now_ns); /* frames of links may be due */
    task->due_ns = engine_advance(ports->engine, now_ns);
    for (unsigned i = 0; i < ports->count; i++)
        nic_flush(ports->port[ports->numbers[i]]->nic, ports->pool);
    if (ports->captures && now_ns - ports->flushed_ns >= FLUSH_CAPTURES_NS) {
        capture_flush(ports->captures);
        ports->flushed_ns = now_ns;
    }
    engine_unlock_dataplane(ports->engine);
    if (ports->captures && !atomic_load(&ports->stopping))
        task->due_ns = earlier(task->due_ns, ports->flushed_ns + FLUSH_CAPTURES_NS);
    return lingers(ports, received, now_ns);
}

static void watch(struct task *task, int epoll_fd, bool is_added)
{
    struct ports *ports = ports_of(task);
    ports->epoll_fd = epoll_fd;
    for (unsigned i = 0; i < ports->count; i++)
        watch_nic(ports, ports->port[ports->numbers[i]]->nic,
                  is_added ? EPOLL_CTL_ADD : EPOLL_CTL_DEL);
}

/* Set the task that memory links notify. */
static void set_reader(struct ports *ports, struct task *reader)
{
    for (unsigned i = 0; i < ports->count; i++) {
        struct memory_end *end = nic_memory_end(ports->port[ports->numbers[i]]->nic);
        if (end)
            memory_end_set_reader(end, reader);
    }
}

static void stopped(struct task *task)
{
    set_reader(ports_of(task), NULL);
}

/* Functions for the owner */

/* Attach this driver to the engine, and set its ports up. */
static void attach_driver(struct ports *ports)
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

void ports_start(struct ports *ports, struct workers *workers)
{
    attach_driver(ports);
    ports->flushed_ns = clock_ns(CLOCK_MONOTONIC);
    ports->task.round = do_round;
    ports->task.watch = watch;
    ports->task.stopped = stopped;
    ports->started = true;
    task_start(&ports->task, workers);
    set_reader(ports, &ports->task);
    task_notify(&ports->task); /* frames may have arrived before */
}

void ports_stop(struct ports *ports, uint64_t drain_ns)
{
    atomic_store(&ports->stopping, true);
    task_stop(&ports->task, clock_ns(CLOCK_MONOTONIC) + drain_ns);
    ports->started = false;
}

void ports_wake(struct ports *ports)
{
    task_notify(&ports->task);
}
