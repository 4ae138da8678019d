/* The real-time driver: one thread that carries frames between interfaces and an engine. */
#ifndef MINIP4_PORTS_H
#define MINIP4_PORTS_H

#include "engine.h"
#include "socket.h"

enum { PORTS_NO_CPU = 0xffff };

struct ports_counters {
    uint64_t cpu_ns;         /* CPU time of the driver's thread, kernel's work for it included */
    uint64_t to_cpu_drops;   /* for the controller, which took its frames too slowly */
    uint64_t from_cpu_drops; /* from the controller, faster than the switch took them */
    uint64_t unread;         /* frames that ports_stop() left in the rings */
};

struct ports;

/* Attaches to the engine (engine_set_driver), for so many ports with interfaces. cpu_port:
 * PORTS_NO_CPU, or the port whose frames go to the controller. NULL: errno says why. */
struct ports *ports_create(struct engine *engine, unsigned count, uint16_t cpu_port);
/* All of the following return 0, or -1 with errno set. Before ports_start(): */
int ports_add(struct ports *ports, uint16_t port, const char *interface);
/* Captures all frames of the ports as folder/<interface>_{in,out}.pcap, `snaplen` bytes of each at most. */
int ports_capture(struct ports *ports, const char *folder, uint32_t snaplen);
/* Captures what the ports' links lose as folder/<interface>_lost.pcap. */
int ports_capture_lost(struct ports *ports, const char *folder, uint32_t snaplen);
/* Captures what passes as folder/<interface>_{taken,sending,sent}.pcap: stamped with when the thread
 * took it from its ring, and when the call that handed it over began and ended. */
int ports_capture_handling(struct ports *ports, const char *folder);
int ports_start(struct ports *ports);
/* Has the thread look again at what is due; between start and stop. */
void ports_wake(struct ports *ports);
/* The interface of a port was deleted, and there is a new one of its name: has the thread go over to
 * it. -1: no such port. */
int ports_reopen(struct ports *ports, uint16_t port);
/* Ends the thread: after what waits in rings, queues and links has left, but within drain_ns. */
int ports_stop(struct ports *ports, uint64_t drain_ns);
/* After ports_stop(), or without ports_start(); the engine stays, without driver. Returns 0, or -1
 * with what befell the captures in `error`. */
int ports_destroy(struct ports *ports, char *error, size_t error_size);

/* Instead of ports_add(): takes over the sockets, captures and controller's queues of `old`, which
 * has been stopped; frames that wait there are not lost. The CPU port must be the same. */
void ports_adopt(struct ports *ports, struct ports *old);

void ports_counters(struct ports *ports, struct ports_counters *out);
/* -1: no such port. */
int ports_port_counters(struct ports *ports, uint16_t port, struct nic_counters *out);

/* The controller's side of the CPU port. The descriptor is readable when frames wait, until it is
 * acknowledged: acknowledge first, then read until 0 comes back. */
int ports_cpu_fd(struct ports *ports);
void ports_cpu_acknowledge(struct ports *ports);
/* Copies a frame into `room` (PACKET_ROOM + PACKET_MAX_FRAME bytes); returns its length, or 0. */
uint32_t ports_cpu_read(struct ports *ports, uint8_t *room);
/* Brings a frame in at the CPU port. -1: longer than PACKET_MAX_FRAME, or the queue is full. */
int ports_cpu_write(struct ports *ports, const uint8_t *frame, uint32_t length);

#endif
