/* The start of the payload of a flow's datagrams; used in virtual and in real time. */
#ifndef MINIP4_FLOW_PAYLOAD_H
#define MINIP4_FLOW_PAYLOAD_H

#include <stdint.h>

/* Fields are in network byte order; zeros follow. The structure fits in the smallest Ethernet
 * frame. */
struct flow_payload {
    uint16_t flow;
    uint64_t sequence;
    /* sending time by CLOCK_MONOTONIC: scheduled in virtual time, actual in real time */
    uint64_t sent_ns;
} __attribute__((packed));

#endif
