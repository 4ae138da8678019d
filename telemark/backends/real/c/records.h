/* Format of the record files of senders and receivers. telemark/traffic/flows.py and tcp.py define
 * the same format in Python. Times are CLOCK_MONOTONIC. */
#ifndef TESTBED_RECORDS_H
#define TESTBED_RECORDS_H

#include <stdint.h>

struct flow_sent {
    uint64_t sequence, sent_ns, handed_ns; /* times just before and after the send call */
};

struct flow_received {
    uint64_t sequence, sent_ns, received_ns;
};

struct tcp_progress {
    uint64_t time_ns, written, acknowledged; /* bytes */
    uint32_t retransmitted, window;          /* segments */
    uint32_t rtt_us, zero;
};

struct tcp_received {
    uint64_t time_ns, bytes; /* total number of bytes until this time */
};

struct tcp_answer {
    /* times when the request began and when its response was complete */
    uint64_t asked_ns, answered_ns;
};

#endif
