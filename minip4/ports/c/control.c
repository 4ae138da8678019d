/* Functions for the owner of the driver. Before the driver runs, they add ports and captures. While
 * the driver runs, they read counters and exchange frames with the CPU port. */
#define _GNU_SOURCE
#include "ports_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 512 };

/* Return a line-buffered stream with its own descriptor. */
static FILE *open_log(int fd)
{
    if (fd < 0)
        return stderr;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *log = own < 0 ? NULL : fdopen(own, "a");
    if (log)
        setvbuf(log, NULL, _IOLBF, BUFSIZ);
    else if (own >= 0)
        close(own);
    return log;
}

static void close_log(FILE *log)
{
    if (log && log != stderr)
        fclose(log);
}

struct ports *ports_create(struct engine *engine, uint16_t cpu_port, uint64_t device_id, int log_fd)
{
    struct ports *ports = calloc(1, sizeof *ports);
    if (!ports)
        return NULL;
    ports->engine = engine;
    ports->pool = engine_pool(engine);
    ports->cpu_port = cpu_port;
    ports->epoll_fd = -1;
    ports->task.device_id = device_id;
    ports->log = open_log(log_fd);
    if (cpu_port != PORTS_NO_CPU) {
        ports->to_cpu = frame_queue_create();
        ports->from_cpu = frame_queue_create();
    }
    if (!ports->log || (cpu_port != PORTS_NO_CPU && !(ports->to_cpu && ports->from_cpu))) {
        int error = errno;
        ports_destroy(ports, NULL, 0);
        errno = error;
        return NULL;
    }
    return ports;
}

int ports_add(struct ports *ports, uint16_t number, const char *interface, unsigned ring_size,
              struct memory_link *link, unsigned end)
{
    if (number >= ENGINE_DROP_PORT || ports->port[number]) {
        errno = EINVAL;
        return -1;
    }
    struct port *port = calloc(1, sizeof *port);
    struct memory_end *own = port && link ? memory_end_open(link, end) : NULL;
    if (!port || (link && !own)) {
        int error = errno;
        free(port);
        errno = error;
        return -1;
    }
    port->nic = nic_open(interface, ring_size, own, ports->log);
    if (!port->nic) {
        int error = errno;
        memory_end_close(own);
        free(port);
        errno = error;
        return -1;
    }
    ports->port[number] = port;
    ports->numbers[ports->count++] = number;
    return 0;
}

/* Open folder/<interface>_<what>.pcap. Returns NULL with errno set on failure. */
static struct capture *open_capture(struct ports *ports, struct port *port, const char *folder,
                                    const char *what, uint32_t snaplen)
{
    char path[PATH_SIZE];
    int length = snprintf(path, sizeof path, "%s/%s_%s.pcap", folder, nic_name(port->nic), what);
    if (length >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    if (!ports->captures && !(ports->captures = capture_set_create()))
        return NULL;
    return capture_open(ports->captures, path, snaplen);
}

int ports_capture(struct ports *ports, const char *folder, uint32_t snaplen)
{
    for (unsigned i = 0; i < ports->count; i++) {
        struct port *port = ports->port[ports->numbers[i]];
        port->captures[TAP_IN] = open_capture(ports, port, folder, "in", snaplen);
        if (!port->captures[TAP_IN])
            return -1;
        port->captures[TAP_OUT] = open_capture(ports, port, folder, "out", snaplen);
        if (!port->captures[TAP_OUT])
            return -1;
    }
    return 0;
}

int ports_capture_lost(struct ports *ports, const char *folder, uint32_t snaplen)
{
    for (unsigned i = 0; i < ports->count; i++) {
        struct port *port = ports->port[ports->numbers[i]];
        port->lost = open_capture(ports, port, folder, "lost", snaplen);
        if (!port->lost)
            return -1;
    }
    return 0;
}

int ports_capture_handling(struct ports *ports, const char *folder)
{
    for (unsigned i = 0; i < ports->count; i++) {
        struct port *port = ports->port[ports->numbers[i]];
        port->taken = open_capture(ports, port, folder, "taken", CAPTURE_SNAPLEN);
        struct capture *sending =
            open_capture(ports, port, folder, "sending", CAPTURE_SNAPLEN);
        struct capture *sent = open_capture(ports, port, folder, "sent", CAPTURE_SNAPLEN);
        if (!port->taken || !sending || !sent)
            return -1;
        nic_capture(port->nic, sending, sent);
    }
    return 0;
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
    close_log(ports->log);
    free(ports);
    return result;
}

void ports_adopt(struct ports *ports, struct ports *old)
{
    memcpy(ports->port, old->port, sizeof ports->port);
    memcpy(ports->numbers, old->numbers, sizeof ports->numbers);
    ports->count = old->count;
    atomic_store(&ports->reopening, atomic_load(&old->reopening));
    frame_queue_destroy(ports->to_cpu);
    frame_queue_destroy(ports->from_cpu);
    ports->to_cpu = old->to_cpu;
    ports->from_cpu = old->from_cpu;
    ports->captures = old->captures;
    close_log(ports->log); /* the nics write their messages to the log of `old` */
    ports->log = old->log;
    old->log = NULL;
    ports->earlier_cpu_ns = old->earlier_cpu_ns + task_cpu_ns(&old->task);
    old->count = 0;
    old->to_cpu = old->from_cpu = NULL;
    old->captures = NULL;
}

/* Counters and CPU port */

void ports_counters(struct ports *ports, struct ports_counters *out)
{
    *out = (struct ports_counters){
        .cpu_ns = ports->earlier_cpu_ns + task_cpu_ns(&ports->task),
    };
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

int ports_reopen(struct ports *ports, uint16_t number)
{
    struct port *port = number < ENGINE_MAX_PORTS ? ports->port[number] : NULL;
    if (!port)
        return -1;
    atomic_store(&port->reopening, true);
    atomic_store(&ports->reopening, true);
    ports_wake(ports);
    return 0;
}

int ports_set_train_mtu(struct ports *ports, uint16_t number, unsigned mtu)
{
    struct port *port = number < ENGINE_MAX_PORTS ? ports->port[number] : NULL;
    if (!port)
        return -1;
    engine_lock(ports->engine);
    nic_set_train_mtu(port->nic, mtu);
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
    if (!frame_queue_put(ports->from_cpu, frame, length))
        return -1;
    ports_wake(ports);
    return 0;
}
