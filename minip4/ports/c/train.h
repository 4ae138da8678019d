/* Trains: frames in a row that the kernel can be given as one, and cuts apart again (GSO).
 *
 * One frame costs some 1,200 ns of kernel from sendmmsg() to the peer's stack, one in a train of 16 a
 * third of that. What leaves the interface is, byte for byte, what the frames are: train_length()
 * takes only frames of one flow that differ in what the kernel counts up itself. */
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

/* What goes before the first payload. */
struct train_headers {
    struct virtio_net_hdr offload; /* as PACKET_VNET_HDR takes it; all 0: a frame as it is */
    uint8_t bytes[TRAIN_MAX_HEADERS];
};

/* How many of the frames, beginning with the first, make a train: at least 1, which is none. A train is
 * of TCP segments (RFC 9293) or of UDP datagrams over IPv4, all of the same length but for the last. */
unsigned train_length(struct packet *const *frames, unsigned count);

/* Writes the headers of a train of two or more; fills count + 1 parts. */
void train_compose(struct packet *const *frames, unsigned count, struct train_headers *headers,
                   struct iovec *parts);

/* Sends trains to one interface. */
struct trains;

/* NULL when memory or sockets are short: then there are no trains. */
struct trains *trains_open(int interface, const char *name);
void trains_close(struct trains *trains);
/* As train_length(), but 1 where the interface would not cut the train apart (its offloads are on), or
 * the kernel does not know how (UDP: before Linux 6.2), or a frame is longer than the MTU. */
unsigned trains_length(struct trains *trains, struct packet *const *frames, unsigned count);
/* Sends one train. Returns 0, or an error number: EINVAL when the kernel does not know such trains, which
 * are then no longer made. */
int trains_send(struct trains *trains, struct packet *const *frames, unsigned count);

#endif
