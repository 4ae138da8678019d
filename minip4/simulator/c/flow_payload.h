/* The start of the payload of a flow's datagrams, in virtual and in real time. */
#ifndef MINIP4_FLOW_PAYLOAD_H
#define MINIP4_FLOW_PAYLOAD_H

#include <stdint.h>

/* In network byte order; zeros follow. It fits the smallest Ethernet frame. */
struct flow_payload {
    uint16_t flow;
    uint64_t sequence;
    uint64_t sent_ns; /* scheduled (virtual time) or actual (real time) sending time: CLOCK_MONOTONIC */
} __attribute__((packed));

#endif
