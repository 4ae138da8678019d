/* The record of a packet received by an application, in virtual and in real time, without its bytes. */
#ifndef MINIP4_ARRIVAL_H
#define MINIP4_ARRIVAL_H

#include <stdint.h>

struct arrival_record {
    uint64_t time_ns;
    uint32_t length;  /* bytes */
    uint32_t address; /* of the sender of a datagram, in network byte order; 0 for frames */
    uint16_t port;    /* the same */
    uint8_t tos;      /* of the datagram: DSCP << 2 | ECN; 0 for frames */
    uint8_t none[5];
};

#endif
