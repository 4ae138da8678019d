/* The real-time driver: one thread that carries frames between interfaces and an engine. */
#ifndef MINIP4_PORTS_H
#define MINIP4_PORTS_H

#include "engine.h"
#include "socket.h"

enum { PORTS_NO_CPU = 0xffff };

struct ports_counters {
    uint64_t cpu_ns;         /* CPU time of the driver's thread, including kernel time */
    uint64_t to_cpu_drops;   /* dropped because the controller read too slowly */
    uint64_t from_cpu_drops; /* dropped because the controller sent too fast */
    uint64_t unread;         /* frames left in the rings by ports_stop() */
};

struct ports;

/* Attaches to the engine (engine_set_driver), for `count` ports with interfaces. cpu_port: PORTS_NO_CPU, or the
 * port whose frames go to the controller. NULL: see errno. */
struct ports *ports_create(struct engine *engine, unsigned count, uint16_t cpu_port);
/* All of the following return 0, or -1 with errno set. Before ports_start(): */
int ports_add(struct ports *ports, uint16_t port, const char *interface);
/* Captures all frames of the ports as folder/<interface>_{in,out}.pcap, at most `snaplen` bytes each. */
int ports_capture(struct ports *ports, const char *folder, uint32_t snaplen);
/* Captures frames lost by the ports' links as folder/<interface>_lost.pcap. */
int ports_capture_lost(struct ports *ports, const char *folder, uint32_t snaplen);
/* Captures frames as folder/<interface>_{taken,sending,sent}.pcap, with the times when the thread took them from
 * the ring, and when the call that sent them began and ended. */
int ports_capture_handling(struct ports *ports, const char *folder);
int ports_start(struct ports *ports);
/* Makes the thread check again what is due; between start and stop. */
void ports_wake(struct ports *ports);
/* Switches the thread to the new interface with the name of a port's deleted interface. -1: no such port. */
int ports_reopen(struct ports *ports, uint16_t port);
/* Ends the thread when rings, queues and links are empty, but at the latest after drain_ns. */
int ports_stop(struct ports *ports, uint64_t drain_ns);
/* After ports_stop(), or without ports_start(); the engine stays without a driver. Returns 0, or -1 with an
 * error of the captures in `error`. */
int ports_destroy(struct ports *ports, char *error, size_t error_size);

/* Instead of ports_add(): takes over the sockets, captures and controller queues of `old`, which must be
 * stopped; frames waiting there are not lost. The CPU port must be the same. */
void ports_adopt(struct ports *ports, struct ports *old);

void ports_counters(struct ports *ports, struct ports_counters *out);
/* -1: no such port. */
int ports_port_counters(struct ports *ports, uint16_t port, struct nic_counters *out);

/* The controller's side of the CPU port. The descriptor is readable if frames wait, until it is acknowledged:
 * acknowledge first, then read until 0 is returned. */
int ports_cpu_fd(struct ports *ports);
void ports_cpu_acknowledge(struct ports *ports);
/* Copies a frame into `room` (PACKET_ROOM + PACKET_MAX_FRAME bytes); returns its length, or 0. */
uint32_t ports_cpu_read(struct ports *ports, uint8_t *room);
/* Sends a frame to the CPU port. -1: longer than PACKET_MAX_FRAME, or the queue is full. */
int ports_cpu_write(struct ports *ports, const uint8_t *frame, uint32_t length);

#endif
