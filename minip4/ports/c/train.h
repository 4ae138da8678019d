/* Trains: consecutive frames that are passed to the kernel as one frame. The kernel segments this
 * frame (GSO). A single frame costs about 1,200 ns of kernel time from sendmmsg() to the peer's
 * stack. In a train of 16 frames, each frame costs a third of this time. The frames on the wire are
 * identical to single frames: train_length() selects frames of one flow that differ only in fields
 * that the kernel sets itself. */
#ifndef MINIP4_PORTS_TRAIN_H
#define MINIP4_PORTS_TRAIN_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "packet.h"

enum {
    TRAIN_MAX_HEADERS = 14 + 20 + 60, /* Ethernet, IPv4 without options, TCP with all options */
    TRAIN_MAX_FRAMES = 64
};

/* The headers before the first payload. */
struct train_headers {
    /* for PACKET_VNET_HDR; if all bytes are 0, the frame is not segmented */
    struct virtio_net_hdr offload;
    uint8_t bytes[TRAIN_MAX_HEADERS];
};

/* Return the number of frames, starting with the first, that form a train; 1 means no train. A
 * train consists of TCP segments (RFC 9293) or UDP datagrams over IPv4, all of the same length
 * except the last. */
unsigned train_length(struct packet *const *frames, unsigned count);

/* Write the headers of a train of at least two frames, and fill count + 1 elements of `parts`. */
void train_compose(struct packet *const *frames, unsigned count, struct train_headers *headers,
                   struct iovec *parts);

/* Sends trains to one interface. */
struct trains;

/* Turn off the checksum offload of a veth, so that the kernel segments trains to it. Returns NULL if
 * out of memory, or if the socket cannot be set up. Then there are no trains. */
struct trains *trains_open(int interface, const char *name);
/* Call this when the interface has changed. `mtu` is its MTU, or 0 if it has checksum offload. */
void trains_set_mtu(struct trains *trains, unsigned mtu);
void trains_close(struct trains *trains);
/* Like train_length(), but also returns 1 if `trains` is NULL, if the interface has checksum offload
 * and therefore would not segment the train, if the kernel cannot segment it (UDP before Linux 6.2),
 * or if a frame exceeds the MTU. */
unsigned trains_length(const struct trains *trains, struct packet *const *frames, unsigned count);
/* Send one train. Returns 0 or an errno value. After EINVAL, such trains are disabled, because the
 * kernel does not support them. */
int trains_send(struct trains *trains, struct packet *const *frames, unsigned count);

#endif
