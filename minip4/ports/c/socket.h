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
    uint64_t unfinished_checksums; /* received although the sender left the checksum to hardware */
    uint64_t transmitted_packets, transmitted_bytes;
    uint64_t transmit_kernel_drops; /* ENOBUFS or EAGAIN, and again when retried */
    uint64_t transmit_errors;       /* interface down or gone, or frame longer than its MTU */
    uint64_t transmit_retries;
    uint64_t transmitted_in_trains; /* of those transmitted: see train.h */
};

struct nic;

/* One of so many nics, which share the memory of rings. NULL: errno says why. */
struct nic *nic_open(const char *interface, unsigned nics);
/* Goes over to an interface that has the name of the old one, which was deleted; counters run on.
 * If that fails, the old nic stays and the failure is reported. */
struct nic *nic_reopen(struct nic *old, unsigned nics);
void nic_close(struct nic *nic);

/* Captures what is transmitted, stamped with when the call that hands it over began, and ended. */
void nic_capture(struct nic *nic, struct capture *sending, struct capture *sent);

/* The next frame, or NULL when none waits. Its time_ns is when it came, of CLOCK_REALTIME: the kernel
 * stamps a veth's frames while their sender is in its call. */
struct packet *nic_receive(struct nic *nic, struct packet_pool *pool);
/* Whether a frame waits, and when it came; UINT64_MAX where none does. */
bool nic_peek(const struct nic *nic, uint64_t *stamp_ns);
/* Takes a frame to transmit; it leaves by nic_flush() at the latest. */
void nic_transmit(struct nic *nic, struct packet *packet, struct packet_pool *pool);
void nic_flush(struct nic *nic, struct packet_pool *pool);

/* For ppoll(): readable when a frame waits; call nic_clear_error() after POLLERR. */
int nic_fd(const struct nic *nic);
void nic_clear_error(struct nic *nic);
/* How many frames wait in the ring. */
unsigned nic_unread(const struct nic *nic);
const char *nic_name(const struct nic *nic);
const struct nic_counters *nic_counters(struct nic *nic);

#endif
