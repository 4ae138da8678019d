/* Trains: consecutive frames that are passed to the kernel as one, which it segments again (GSO). A frame costs
 * about 1,200 ns of kernel time from sendmmsg() to the peer's stack, in a train of 16 a third of that. The
 * transmitted frames are byte for byte the same: train_length() selects only frames of one flow that differ in
 * fields that the kernel increments itself. */
#ifndef MINIP4_PORTS_TRAIN_H
#define MINIP4_PORTS_TRAIN_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "packet.h"

enum {
    TRAIN_MAX_HEADERS = 14 + 20 + 60, /* Ethernet, IPv4 without options, TCP with all */
    TRAIN_MAX_FRAMES = 64
};

/* The headers before the first payload. */
struct train_headers {
    struct virtio_net_hdr offload; /* for PACKET_VNET_HDR; all 0: an unmodified frame */
    uint8_t bytes[TRAIN_MAX_HEADERS];
};

/* The number of frames, from the first on, that form a train; 1: no train. A train consists of TCP segments (RFC
 * 9293) or UDP datagrams over IPv4, all of the same length except the last. */
unsigned train_length(struct packet *const *frames, unsigned count);

/* Writes the headers of a train of two or more; fills count + 1 parts. */
void train_compose(struct packet *const *frames, unsigned count, struct train_headers *headers,
                   struct iovec *parts);

/* Sends trains to one interface. */
struct trains;

/* NULL without memory or sockets: then there are no trains. */
struct trains *trains_open(int interface, const char *name);
void trains_close(struct trains *trains);
/* As train_length(), but 1 if the interface would not segment the train (its offloads are on), or the kernel
 * cannot (UDP: before Linux 6.2), or a frame exceeds the MTU. */
unsigned trains_length(struct trains *trains, struct packet *const *frames, unsigned count);
/* Sends one train. Returns 0, or an error number: EINVAL if the kernel does not support such trains, which are
 * then disabled. */
int trains_send(struct trains *trains, struct packet *const *frames, unsigned count);

#endif
