/* What senders and receivers record, as files have it; in Python telemark/traffic/flows.py and telemark/traffic/tcp.py.
 * Times are CLOCK_MONOTONIC. */
#ifndef TESTBED_RECORDS_H
#define TESTBED_RECORDS_H

#include <stdint.h>

struct flow_sent {
    uint64_t sequence, sent_ns, handed_ns; /* before the call that sent it, and after */
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
    uint64_t time_ns, bytes; /* in all until then */
};

struct tcp_answer {
    uint64_t asked_ns, answered_ns; /* the request was written; all of the answer had come */
};

#endif
