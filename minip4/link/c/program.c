/* `minip4 link`: the link component between two interfaces, in both directions, until SIGTERM. The
 * program is an engine (engine.h) with two ports and no P4 program. Frames that arrive at one port
 * leave at the other, through a queue with tail drop and a link. Because the program is an engine,
 * the driver of switches can run it (ports.h). */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ports.h"

enum { UNUSABLE = 2, ERROR_SIZE = 1024, RING_SIZE = 4 * 1024 * 1024 };

#define DRAIN_NS UINT64_C(1000000000)

struct direction {
    struct engine *engine;
    uint16_t out; /* egress port of this direction */
    struct link *link;
    /* queue before the link; time_ns of a packet is when this packet entered the queue */
    struct packet *first, *last;
    uint64_t waiting, depth;
    uint64_t received, queue_drops;
};

struct engine {
    struct engine_driver driver;
    struct packet_pool *pool;
    pthread_mutex_t lock;
    struct direction direction[2]; /* index: ingress port of the direction */
};

/* The engine */

static void deliver(void *user, struct packet *packet, uint64_t now_ns)
{
    struct direction *direction = user;
    struct engine_driver *driver = &direction->engine->driver;
    driver->transmit(driver->user, direction->out, packet, now_ns);
}

static void tell_lost(void *user, uint64_t now_ns, const uint8_t *frame, uint32_t length)
{
    struct direction *direction = user;
    struct engine_driver *driver = &direction->engine->driver;
    driver->link_drop(driver->user, direction->out, now_ns, frame, length);
}

/* Send the queued frames that the link can send by now_ns. The sending time of a frame is the time
 * at which the link became free. */
static void send_waiting(struct direction *direction, uint64_t now_ns)
{
    while (direction->first && link_free_at(direction->link) <= now_ns) {
        struct packet *packet = direction->first;
        uint64_t free_ns = link_free_at(direction->link);
        direction->first = packet->next;
        direction->waiting--;
        link_send(direction->link, packet, free_ns > packet->time_ns ? free_ns : packet->time_ns);
    }
}

/* Send the frame at its arrival time. So a late wake-up of this process does not delay it. */
void engine_receive(struct engine *engine, uint16_t port, struct packet *packet,
                    uint64_t arrived_ns, uint64_t now_ns)
{
    struct direction *direction = &engine->direction[port];
    (void)now_ns;
    direction->received++;
    send_waiting(direction, arrived_ns);
    if (direction->waiting == direction->depth) {
        direction->queue_drops++;
        packet_give(engine->pool, packet);
        return;
    }
    packet->time_ns = arrived_ns;
    packet->next = NULL;
    if (direction->first)
        direction->last->next = packet;
    else
        direction->first = packet;
    direction->last = packet;
    direction->waiting++;
    send_waiting(direction, arrived_ns);
}

uint64_t engine_advance(struct engine *engine, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        struct direction *direction = &engine->direction[i];
        send_waiting(direction, now_ns);
        uint64_t due_ns = link_advance(direction->link, now_ns);
        if (direction->first && link_free_at(direction->link) < due_ns)
            due_ns = link_free_at(direction->link);
        if (due_ns < next_ns)
            next_ns = due_ns;
    }
    return next_ns;
}

void engine_set_driver(struct engine *engine, const struct engine_driver *driver)
{
    engine->driver = *driver;
}

void engine_set_port(struct engine *engine, uint16_t port, bool up)
{
    (void)engine, (void)port, (void)up; /* unused, because ports are neither added nor removed */
}

struct packet_pool *engine_pool(struct engine *engine)
{
    return engine->pool;
}

void engine_lock(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
}

void engine_lock_dataplane(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
}

void engine_unlock(struct engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
}

void engine_unlock_dataplane(struct engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
}

/* The program */

struct options {
    const char *interface[2];
    struct link_config link;
    uint64_t queue;
    const char *drop_folder; /* NULL if there is no drop log */
};

static void __attribute__((noreturn)) fail(const char *what)
{
    fprintf(stderr, "minip4 link: error: %s: %s\n", what, strerror(errno));
    exit(UNUSABLE);
}

/* Arguments are positional, because only minip4/link/cli.py calls this program, and it has checked
 * the values. */
static struct options parse(int argc, char **argv)
{
    if (argc != 12) {
        fprintf(stderr, "usage: link A B RATE_BPS DELAY_NS JITTER_NS LOSS REORDER REORDER_NS SEED "
                        "QUEUE DROP_FOLDER\n");
        exit(UNUSABLE);
    }
    return (struct options){
        .interface = {argv[1], argv[2]},
        .link = {
            .rate_bps = strtoull(argv[3], NULL, 10),
            .delay_ns = strtoull(argv[4], NULL, 10),
            .jitter_ns = strtoull(argv[5], NULL, 10),
            .loss = strtod(argv[6], NULL),
            .reorder = strtod(argv[7], NULL),
            .reorder_ns = strtoull(argv[8], NULL, 10),
            .seed = strtoull(argv[9], NULL, 10),
        },
        .queue = strtoull(argv[10], NULL, 10),
        .drop_folder = *argv[11] ? argv[11] : NULL,
    };
}

static void make_engine(struct engine *engine, const struct options *options)
{
    pthread_mutex_init(&engine->lock, NULL);
    engine->pool = packet_pool_create(0);
    if (!engine->pool)
        fail("memory");
    for (uint16_t i = 0; i < 2; i++) {
        struct link_config config = options->link;
        config.seed += i; /* each direction has its own random numbers */
        engine->direction[i] = (struct direction){
            .engine = engine,
            .out = !i,
            .link = link_create(&config, engine->pool, deliver, tell_lost, &engine->direction[i]),
            .depth = options->queue,
        };
        if (!engine->direction[i].link)
            fail("memory");
    }
}

static void end_engine(struct engine *engine)
{
    for (int i = 0; i < 2; i++)
        link_destroy(engine->direction[i].link);
    packet_pool_destroy(engine->pool); /* includes frames left in the queues */
    pthread_mutex_destroy(&engine->lock);
}

static struct ports *open_ports(struct engine *engine, const struct options *options)
{
    struct ports *ports = ports_create(engine, PORTS_NO_CPU, 0, -1);
    if (!ports)
        fail("driver");
    for (uint16_t i = 0; i < 2; i++)
        if (ports_add(ports, i, options->interface[i], RING_SIZE, NULL, 0))
            fail(options->interface[i]);
    if (options->drop_folder &&
        ports_capture_lost(ports, options->drop_folder, CAPTURE_SNAPLEN))
        fail(options->drop_folder);
    return ports;
}

static void print_direction(struct engine *engine, struct ports *ports, uint16_t in,
                            const struct options *options)
{
    struct direction *direction = &engine->direction[in];
    const struct link_counters *link = link_counters(direction->link);
    struct nic_counters from, to;
    ports_port_counters(ports, in, &from);
    ports_port_counters(ports, direction->out, &to);
    printf("{\"from\": \"%s\", \"to\": \"%s\", \"received_packets\": %lu, \"queue_drops\": %lu, "
           "\"waiting\": %lu, \"link\": {\"sent_packets\": %lu, \"sent_bytes\": %lu, "
           "\"delivered_packets\": %lu, \"delivered_bytes\": %lu, \"lost_packets\": %lu, "
           "\"lost_bytes\": %lu}, \"transmitted_packets\": %lu, "
           "\"kernel\": {\"receive_drops\": %lu, \"send_errors\": %lu}}",
           options->interface[in], options->interface[direction->out], direction->received,
           direction->queue_drops, direction->waiting, link->sent_packets, link->sent_bytes,
           link->delivered_packets, link->delivered_bytes, link->lost_packets, link->lost_bytes,
           to.transmitted_packets, from.receive_kernel_drops,
           to.transmit_kernel_drops + to.transmit_errors);
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    struct engine engine = {0};
    char error[ERROR_SIZE];
    sigset_t ending;
    int signal_number;

    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ending, NULL);
    make_engine(&engine, &options);
    struct ports *ports = open_ports(&engine, &options);
    struct workers *workers = workers_create(1);
    if (!workers)
        fail("thread");
    ports_start(ports, workers);
    printf("minip4 link: ready (%s - %s)\n", options.interface[0], options.interface[1]);
    fflush(stdout);

    sigwait(&ending, &signal_number);
    ports_stop(ports, DRAIN_NS);
    workers_destroy(workers);
    struct ports_counters counters;
    ports_counters(ports, &counters);
    printf("{\"directions\": [");
    print_direction(&engine, ports, 0, &options);
    printf(", ");
    print_direction(&engine, ports, 1, &options);
    printf("], \"unread\": %lu, \"cpu_ns\": %lu}\n", counters.unread, counters.cpu_ns);
    int result = ports_destroy(ports, error, sizeof error);
    if (result)
        fprintf(stderr, "minip4 link: error: %s\n", error);
    end_engine(&engine);
    return result ? 1 : 0;
}
