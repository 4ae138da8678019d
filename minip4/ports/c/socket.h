/* A nic: one network interface, accessed through a packet socket. Frames from and to another switch
 * may take a memory link instead. Not thread-safe. */
#ifndef MINIP4_PORTS_SOCKET_H
#define MINIP4_PORTS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "capture.h"
#include "memory_link.h"
#include "packet.h"

struct nic_counters {
    uint64_t received_packets, received_bytes;
    uint64_t receive_kernel_drops; /* ring or socket memory was full */
    uint64_t receive_too_long;     /* longer than PACKET_MAX_FRAME */
    uint64_t receive_memory_drops; /* no packet buffer available */
    /* received without a checksum, because the sender left the checksum to hardware offload */
    uint64_t unfinished_checksums;
    uint64_t transmitted_packets, transmitted_bytes;
    uint64_t transmit_kernel_drops; /* ENOBUFS or EAGAIN, even after retries */
    uint64_t transmit_errors;       /* interface down or deleted, or frame longer than its MTU */
    uint64_t transmit_retries;
    uint64_t transmitted_in_trains; /* transmitted frames that were sent in trains, see train.h */
};

struct nic;

/* Create a nic for an interface. `ring_size` is the size of its receive ring in bytes: at least
 * 64 KiB, and rounded down to a multiple of it. If `memory` is not NULL, frames are sent through this
 * end of a memory link, and received from it, too; the nic then owns the end. Messages are written
 * to `log`. Returns NULL with errno set on failure. */
struct nic *nic_open(const char *interface, unsigned ring_size, struct memory_end *memory,
                     FILE *log);
/* Switch to a new interface with the name of the deleted one; counters continue. If this fails, the
 * old nic stays, and the failure is reported. */
struct nic *nic_reopen(struct nic *old);
void nic_close(struct nic *nic);

/* Call this when the interface has changed, see trains_set_mtu(). */
void nic_set_train_mtu(struct nic *nic, unsigned mtu);

/* Return the end of a memory link, or NULL. */
struct memory_end *nic_memory_end(const struct nic *nic);

/* Capture transmitted frames with the times at which the call that sent them began and ended. */
void nic_capture(struct nic *nic, struct capture *sending, struct capture *sent);

/* Return the next frame, or NULL if no frame is queued. Its time_ns is the arrival time by
 * CLOCK_REALTIME. For a veth, the kernel sets this time during the sender's call. */
struct packet *nic_receive(struct nic *nic, struct packet_pool *pool);
/* Get the arrival time of the next queued frame. Returns false if no frame is queued. */
bool nic_peek(const struct nic *nic, uint64_t *stamp_ns);
/* Queue a frame for transmission; it is sent by nic_flush() at the latest. */
void nic_transmit(struct nic *nic, struct packet *packet, struct packet_pool *pool);
void nic_flush(struct nic *nic, struct packet_pool *pool);

/* Return the descriptor for epoll. It is readable if a frame is queued. After EPOLLERR, call
 * nic_clear_error(). */
int nic_fd(const struct nic *nic);
void nic_clear_error(struct nic *nic);
/* Return the number of frames queued in the ring. */
unsigned nic_unread(const struct nic *nic);
const char *nic_name(const struct nic *nic);
const struct nic_counters *nic_counters(struct nic *nic);

#endif
