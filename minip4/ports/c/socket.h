/* A nic: one network interface, reached through a packet socket. Not thread-safe. */
#ifndef MINIP4_PORTS_SOCKET_H
#define MINIP4_PORTS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "capture.h"
#include "packet.h"

struct nic_counters {
    uint64_t received_packets, received_bytes;
    uint64_t receive_kernel_drops; /* the ring or the socket's memory was full */
    uint64_t receive_too_long;     /* longer than PACKET_MAX_FRAME */
    uint64_t receive_memory_drops; /* no packet buffer available */
    uint64_t unfinished_checksums; /* received without checksum, which the sender left to hardware */
    uint64_t transmitted_packets, transmitted_bytes;
    uint64_t transmit_kernel_drops; /* ENOBUFS or EAGAIN, and again when retried */
    uint64_t transmit_errors;       /* interface down or gone, or frame longer than its MTU */
    uint64_t transmit_retries;
    uint64_t transmitted_in_trains; /* of those transmitted: see train.h */
};

struct nic;

/* Creates one of `count` nics, which share the memory for rings. NULL: see errno. */
struct nic *nic_open(const char *interface, unsigned nics);
/* Switches to the new interface with the name of the deleted one; counters continue. If that fails, the old nic
 * stays and the failure is reported. */
struct nic *nic_reopen(struct nic *old, unsigned nics);
void nic_close(struct nic *nic);

/* Captures transmitted frames with the times when the call that sent them began and ended. */
void nic_capture(struct nic *nic, struct capture *sending, struct capture *sent);

/* The next frame, or NULL if none waits. Its time_ns is the arrival time by CLOCK_REALTIME: the kernel stamps
 * frames of a veth during the sender's call. */
struct packet *nic_receive(struct nic *nic, struct packet_pool *pool);
/* The arrival time of the next waiting frame; UINT64_MAX if none waits. */
bool nic_peek(const struct nic *nic, uint64_t *stamp_ns);
/* Queues a frame for transmission; it is sent by nic_flush() at the latest. */
void nic_transmit(struct nic *nic, struct packet *packet, struct packet_pool *pool);
void nic_flush(struct nic *nic, struct packet_pool *pool);

/* For ppoll(): readable if a frame waits; call nic_clear_error() after POLLERR. */
int nic_fd(const struct nic *nic);
void nic_clear_error(struct nic *nic);
/* How many frames wait in the ring. */
unsigned nic_unread(const struct nic *nic);
const char *nic_name(const struct nic *nic);
const struct nic_counters *nic_counters(struct nic *nic);

#endif
