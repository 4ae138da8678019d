/* The real-time driver: it moves frames between interfaces and an engine, in a worker thread. */
#ifndef MINIP4_PORTS_H
#define MINIP4_PORTS_H

#include "engine.h"
#include "socket.h"
#include "worker.h"

enum { PORTS_NO_CPU = 0xffff };

struct ports_counters {
    uint64_t cpu_ns;         /* CPU time in ns, including kernel time; see task_cpu_ns() */
    uint64_t to_cpu_drops;   /* number of frames dropped because the controller read too slowly */
    uint64_t from_cpu_drops; /* number of frames dropped because the controller sent too fast */
    uint64_t unread;         /* number of frames that ports_stop() left in the rings */
};

struct ports;

/* Create a driver without ports, and attach it to the engine (engine_set_driver). cpu_port is the
 * port whose frames go to the controller, or PORTS_NO_CPU. Messages are written to `log_fd`, or to
 * stderr if it is -1. Returns NULL with errno set on failure. */
struct ports *ports_create(struct engine *engine, uint16_t cpu_port, uint64_t device_id, int log_fd);
/* Below, functions of type int return 0 on success, or -1 with errno set. Functions declared before
 * ports_start() must be called before the driver runs. */
/* Add a port. `ring_size` is as for nic_open() (socket.h). If `link` is not NULL, frames pass this end
 * of a memory link (memory_link.h) instead of the interface. */
int ports_add(struct ports *ports, uint16_t port, const char *interface, unsigned ring_size,
              struct memory_link *link, unsigned end);
/* Capture all frames of the ports in folder/<interface>_{in,out}.pcap, at most `snaplen` bytes per
 * frame. */
int ports_capture(struct ports *ports, const char *folder, uint32_t snaplen);
/* Capture frames lost by the ports' links in folder/<interface>_lost.pcap. */
int ports_capture_lost(struct ports *ports, const char *folder, uint32_t snaplen);
/* Capture frames in folder/<interface>_{taken,sending,sent}.pcap. The timestamp in the first file
 * is when the thread read the frame from the ring. The timestamps in the other two files are when
 * the call that sent the frame began, and when it ended. */
int ports_capture_handling(struct ports *ports, const char *folder);
void ports_start(struct ports *ports, struct workers *workers);
/* Make the thread check immediately which work is due. Call it only between start and stop. */
void ports_wake(struct ports *ports);
/* Switch the thread to a new interface with the name of the port's deleted interface. Returns -1 if
 * there is no such port. */
int ports_reopen(struct ports *ports, uint16_t port);
/* Call this when the interface of a port has changed, see trains_set_mtu() (train.h). Returns -1 if
 * there is no such port. */
int ports_set_train_mtu(struct ports *ports, uint16_t port, unsigned mtu);
/* Stop when rings, queues and links are empty, but at the latest after drain_ns. */
void ports_stop(struct ports *ports, uint64_t drain_ns);
/* Free the driver. Call this after ports_stop(), or if ports_start() was not called.
 * Returns 0, or -1 with an error of the captures in `error`. */
int ports_destroy(struct ports *ports, char *error, size_t error_size);

/* Use the sockets, captures and controller queues of `old`, instead of ports_add(). The driver
 * `old` must be stopped and have the same CPU port. Frames in its queues are not lost. */
void ports_adopt(struct ports *ports, struct ports *old);

void ports_counters(struct ports *ports, struct ports_counters *out);
/* Read the counters of a port. Returns -1 if there is no such port. */
int ports_port_counters(struct ports *ports, uint16_t port, struct nic_counters *out);

/* The controller's side of the CPU port. The descriptor becomes readable when frames are queued,
 * and stays readable until it is acknowledged. So acknowledge first, and then read until 0 is
 * returned. */
int ports_cpu_fd(struct ports *ports);
void ports_cpu_acknowledge(struct ports *ports);
/* Copy a frame into `room` (PACKET_ROOM + PACKET_MAX_FRAME bytes). Returns its length, or 0 if no
 * frame is queued. */
uint32_t ports_cpu_read(struct ports *ports, uint8_t *room);
/* Send a frame to the CPU port. Returns -1 if it is longer than PACKET_MAX_FRAME, or if the queue
 * is full. */
int ports_cpu_write(struct ports *ports, const uint8_t *frame, uint32_t length);

#endif
