/* Private structure of a nic (network interface), shared by its source files. */
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
    struct trains *trains; /* NULL if the nic sends no trains */
    /* Length of the longest single frame that was accepted, since a frame was lost or since
     * PROBE_TRAINS trains. Longer frames form no trains, because the kernel reports no error if the
     * peer drops frames of a train. */
    unsigned accepted_length;
    unsigned trains_since_probe;
    struct memory_end *memory; /* NULL if there is no memory link */
    FILE *log;
    uint8_t *ring;
    unsigned ring_size, slots; /* ring size in bytes, and its capacity in frames */
    unsigned slot;
    unsigned queued;
    struct capture *sending, *sent; /* NULL if frames are not captured */
    bool down; /* the interface is reported as down; reset when a frame passes */
    bool gone;
    /* each of these events is reported once */
    bool reported_checksum, reported_too_long, reported_not_sent;
    struct nic_counters counters;
    char name[IF_NAMESIZE];
    struct packet *packets[NIC_BATCH];
    struct mmsghdr messages[NIC_BATCH];
    struct iovec parts[NIC_BATCH];
};

/* Print a message about the interface. */
void nic_tell(const struct nic *nic, const char *what);
/* Report, once, that the interface is down or deleted. */
void nic_tell_down(struct nic *nic, int error);

#endif
