/* What came for an application, in virtual and in real time, beside its bytes. */
#ifndef MINIP4_ARRIVAL_H
#define MINIP4_ARRIVAL_H

#include <stdint.h>

struct arrival_record {
    uint64_t time_ns;
    uint32_t length;  /* bytes */
    uint32_t address; /* of who sent the datagram, in network byte order; of a frame 0 */
    uint16_t port;    /* the same */
    uint8_t tos;      /* of the datagram: DSCP << 2 | ECN; of a frame 0 */
    uint8_t none[5];
};

#endif
