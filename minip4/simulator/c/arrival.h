/* The record of a packet that an application received, without the bytes of the packet; used in
 * virtual and in real time. */
#ifndef MINIP4_ARRIVAL_H
#define MINIP4_ARRIVAL_H

#include <stdint.h>

struct arrival_record {
    uint64_t time_ns;
    uint32_t length;  /* bytes */
    uint32_t address; /* source address of a datagram, in network byte order; 0 for frames */
    uint16_t port;    /* source port of a datagram, in network byte order; 0 for frames */
    uint8_t tos;      /* DSCP << 2 | ECN of a datagram; 0 for frames */
    uint8_t ttl;      /* TTL of a datagram; 0 for frames */
    uint8_t none[4];
};

#endif
