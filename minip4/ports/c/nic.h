/* Private structure of a nic, shared by its source files. */
#ifndef MINIP4_PORTS_NIC_H
#define MINIP4_PORTS_NIC_H

#define _GNU_SOURCE
#include <net/if.h>
#include <sys/socket.h>

#include "socket.h"
#include "train.h"

enum { NIC_BATCH = 64 }; /* maximum frames sent by one call */

struct nic {
    int fd;
    struct trains *trains; /* NULL: none */
    uint8_t *ring;
    unsigned ring_size, slots; /* bytes, and frames that it holds */
    unsigned slot;
    unsigned queued;
    struct capture *sending, *sent; /* NULL: not captured */
    bool down; /* reported, until a frame passes again */
    bool gone;
    bool reported_checksum, reported_too_long, reported_not_sent; /* each is reported once */
    struct nic_counters counters;
    char name[IF_NAMESIZE];
    struct packet *packets[NIC_BATCH];
    struct mmsghdr messages[NIC_BATCH];
    struct iovec parts[NIC_BATCH];
};

/* Tells the user, on stderr. */
void nic_tell(const struct nic *nic, const char *what);
/* Reports, once, that the interface is down or deleted. */
void nic_tell_down(struct nic *nic, int error);

#endif
