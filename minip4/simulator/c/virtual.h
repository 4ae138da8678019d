/* A virtual network: engines, hosts and wires in virtual time. It has no clock. The same calls
 * result in exactly the same events, on one thread or on several. Events at the same time are
 * ordered: first arriving frames, by sending time, destination node and port; then switches,
 * sources, and ends of TCP connections, each kind in the order in which they were added. */
#ifndef MINIP4_VIRTUAL_H
#define MINIP4_VIRTUAL_H

#include <stddef.h>

#include "arrival.h"
#include "engine.h"

enum { VIRTUAL_NO_CPU = 0xffff, VIRTUAL_NONE = UINT32_MAX, VIRTUAL_MAX_THREADS = 64 };

/* The functions of an engine. Each P4 program has its own shared object with these functions. */
struct virtual_calls {
    void (*prefetch)(const struct engine *, uint16_t);
    void (*prefetch_more)(const struct engine *, uint16_t);
    void (*receive)(struct engine *, uint16_t, struct packet *, uint64_t, uint64_t);
    uint64_t (*advance)(struct engine *, uint64_t);
    void (*set_driver)(struct engine *, const struct engine_driver *);
    void (*set_port)(struct engine *, uint16_t, bool);
    uint64_t (*lookahead)(const struct engine *, uint16_t);
    void (*move_pool)(struct engine *, struct packet_pool *);
};

struct virtual;

/* Create a network. `threads` is 1 to VIRTUAL_MAX_THREADS, including the thread that calls
 * virtual_run(). Returns NULL if out of memory, or if a thread cannot be created. */
struct virtual *virtual_create(uint64_t now_ns, uint32_t threads);
/* Free the network. The engines must be freed before. Returns 0, or -1 with an error of the
 * captures in `error`. */
int virtual_destroy(struct virtual *v, char *error, size_t error_size);
/* Return the packet pool to pass to engine_share_pool(). */
struct packet_pool *virtual_pool(struct virtual *v);
/* Return the limit of packets in the whole network. */
uint64_t virtual_max_packets(void);
uint64_t virtual_now(const struct virtual *v);

/* Add a switch. Returns the node's number, in the order of adding, or VIRTUAL_NONE if out of
 * memory. */
uint32_t virtual_add_switch(struct virtual *v, uint16_t cpu_port);
/* Add a host. `mtu` is the length of the longest IP packet that it receives, in bytes; sent packets
 * are not checked. */
uint32_t virtual_add_host(struct virtual *v, const uint8_t mac[6], uint32_t address, uint32_t mtu);
/* Connect ports of two nodes by a wire without delay. Returns false if out of memory, or if a
 * host's port is not 0. */
bool virtual_connect(struct virtual *v, uint32_t node, uint16_t port, uint32_t other,
                     uint16_t other_port);
/* Set or replace the engine of a switch. The switch has the ports that are connected so far.
 * `may_notify` is true if its program has digests. Returns false if out of memory. */
bool virtual_set_engine(struct virtual *v, uint32_t node, struct engine *engine,
                        const struct virtual_calls *calls, bool may_notify);
/* Assign a node, and nodes that cannot be separated from it, to a partition, unless they may stop
 * the network. The choice of the partition does not change results. */
void virtual_place(struct virtual *v, uint32_t node, uint16_t partition);

struct virtual_partition {
    uint64_t events, sent; /* counts since the start; `sent`: frames to other partitions */
    uint64_t waited_ns;    /* time spent waiting for other partitions, in real time */
    uint64_t lookahead_ns; /* how far it may advance beyond others; UINT64_MAX: no limit */
    uint32_t nodes;
    /* it contains the switches with digests or a CPU port, and the hosts with applications */
    bool may_stop;
};
/* Get the state of a partition after the last run; partitions are numbered from 0. */
void virtual_partition(const struct virtual *v, uint32_t number, struct virtual_partition *out);
/* Capture frames that a switch's port receives (`what` 0) or sends (1), or that its link loses (2).
 * Must be called before virtual_set_engine(). Returns 0, or -1 with errno set. */
int virtual_capture(struct virtual *v, uint32_t node, uint16_t port, int what, const char *path,
                    uint32_t snaplen);
/* Recompute when a switch is due, after a change of its links or queues. */
void virtual_refresh(struct virtual *v, uint32_t node);
/* Count the frames in flight on a port's link. The engine counts these frames as delivered. */
void virtual_flying(const struct virtual *v, uint32_t node, uint16_t port, uint64_t *packets,
                    uint64_t *bytes);
/* Return how many frames longer than PACKET_MAX_FRAME arrived at a switch's port. The engine does
 * not count these frames. */
uint64_t virtual_too_long(const struct virtual *v, uint32_t node, uint16_t port);

enum virtual_stop {
    /* all events up to until_ns are processed; the time is until_ns or, if until_ns is UINT64_MAX,
     * the time of the last event */
    VIRTUAL_REACHED,
    VIRTUAL_CONTROL, /* a switch has messages for its controller, see virtual_control_next() */
    /* max_events were processed (on several threads, approximately); threads are then at
     * different times, so only virtual_place() and virtual_run() may follow */
    VIRTUAL_PAUSED,
    VIRTUAL_SHORT,   /* out of packets or other memory: data were lost, so results would be wrong */
    VIRTUAL_INBOX    /* an application has received packets, see virtual_inbox_next() */
};
enum virtual_stop virtual_run(struct virtual *v, uint64_t until_ns, uint64_t max_events);
/* Return the number of events since the start: arrivals and transmissions of frames, and wake-ups
 * of switches. */
uint64_t virtual_events(const struct virtual *v);
/* Return the number of events processed while all threads ran; a single thread processed all other
 * events. */
uint64_t virtual_at_once(const struct virtual *v);
/* Use all threads also where one thread is faster. Tests of races need this. */
void virtual_stay_parallel(struct virtual *v);
/* Return the time of the next event, or UINT64_MAX if there is none. */
uint64_t virtual_next(struct virtual *v);

/* --- the control plane ------------------------------------------------------------------------ */

/* Return the next switch with digests or frames for its controller, or VIRTUAL_NONE if there are no
 * more. */
uint32_t virtual_control_next(struct virtual *v);
/* Copy the next frame for a switch's controller into `room`, which has PACKET_ROOM +
 * PACKET_MAX_FRAME bytes. Returns the frame's length, or 0 if there is no frame. */
uint32_t virtual_cpu_read(struct virtual *v, uint32_t node, uint8_t *room);
/* Send a frame from the controller. Returns -1 if it is longer than PACKET_MAX_FRAME, or if out of
 * memory. */
int virtual_cpu_write(struct virtual *v, uint32_t node, const uint8_t *frame, uint32_t length);

/* --- hosts ------------------------------------------------------------------------------------ */

struct virtual_host_counters {
    uint64_t sent, received;   /* frames */
    uint64_t too_long;         /* received frames longer than the MTU allows */
    uint64_t other_addresses;  /* frames not addressed to this host's MAC or IP address */
    /* ARP packets and IPv4 headers that are malformed or have a wrong checksum */
    uint64_t header_errors;
    uint64_t checksum_errors;  /* UDP, TCP or ICMP with a wrong checksum or length */
    uint64_t unclaimed;        /* packets to a protocol or port without a listener */
};
void virtual_host_counters(struct virtual *v, uint32_t node, struct virtual_host_counters *out);
/* Copy the first frame that a host counted in header_errors or checksum_errors into `room`, which
 * has PACKET_ROOM + PACKET_MAX_FRAME bytes. Returns the frame's length, or 0 if there is none. */
uint32_t virtual_first_malformed(const struct virtual *v, uint32_t node, uint64_t *time_ns,
                                 uint8_t *room);

struct virtual_flow_config {
    uint32_t source, destination; /* hosts that send and receive the UDP datagrams */
    uint16_t id, source_port, destination_port;
    uint8_t tos, ttl;
    uint32_t payload;       /* in bytes, at least the size of struct flow_payload */
    uint64_t count, start_ns;
    double rate_pps;        /* datagram i is due at start_ns + i / rate, unless due_ns is set */
    /* NULL, or an ascending array: datagram i is due at start_ns + due_ns[i]; the array is
     * copied */
    const uint64_t *due_ns;
};
/* Add a flow. Returns its number, or VIRTUAL_NONE if out of memory or if another flow uses this
 * port of the host. */
uint32_t virtual_add_flow(struct virtual *v, const struct virtual_flow_config *config);

struct virtual_sent {
    uint64_t sequence, sent_ns;
};
struct virtual_received {
    uint64_t sequence, sent_ns, received_ns;
};
struct virtual_flow_result {
    const struct virtual_sent *sent;
    const struct virtual_received *received; /* both pointers are valid until the next event */
    uint64_t sent_count, received_count;
    uint64_t foreign, dscp_changed;
};
/* Get the result of a flow. Returns false if data of the flow were lost because memory was
 * short. */
bool virtual_flow_result(struct virtual *v, uint32_t flow, struct virtual_flow_result *out);
/* Get the numbers of datagrams that a flow has sent and received. The receptions that memory was too
 * short to sort do not count. */
void virtual_flow_counts(struct virtual *v, uint32_t flow, uint64_t *sent, uint64_t *received);
/* End a flow and free its port and records. */
void virtual_remove_flow(struct virtual *v, uint32_t flow);

/* Send unmodified frames from a host, each at its own time (ascending, not before now). `bytes`
 * contains the concatenated frames. Returns false if out of memory, or if a frame is longer than
 * PACKET_MAX_FRAME. */
bool virtual_send_frames(struct virtual *v, uint32_t node, uint64_t count, const uint64_t *time_ns,
                         const uint32_t *length, const uint8_t *bytes);

/* --- TCP -------------------------------------------------------------------------------------- */

enum virtual_congestion { TCP_RENO, TCP_CUBIC, TCP_DCTCP };

struct virtual_tcp_config {
    uint32_t source, destination; /* hosts; the source opens the connection and sends */
    uint32_t isn[2];              /* initial sequence numbers of source and destination */
    uint16_t source_port, destination_port;
    uint8_t tos;        /* DSCP << 2 */
    uint8_t congestion; /* enum virtual_congestion */
    bool has_ecn;
    uint64_t bytes, duration_ns; /* exactly one of them is 0; the other one limits the flow */
    uint64_t start_ns;
    double rate_bps; /* rate of the application; 0 means unlimited */
    uint64_t on_ns, off_ns; /* alternating periods with and without writes; 0 means no pauses */
    /* size of requests into which the bytes are split; each request waits for the previous
     * response; 0 means no requests */
    uint64_t request_bytes, response_bytes, think_ns;
};
struct virtual_tcp_progress {
    uint64_t time_ns, written, acknowledged; /* bytes */
    uint32_t retransmitted, window;          /* segments */
    uint32_t rtt_us, zero;
};
struct virtual_tcp_received {
    uint64_t time_ns, bytes; /* total number of bytes up to this time */
};
struct virtual_tcp_answer {
    /* when the request was written, and when the response was complete */
    uint64_t asked_ns, answered_ns;
};
struct virtual_tcp_result {
    /* recorded every 10 ms, and when all data were acknowledged */
    const struct virtual_tcp_progress *progress;
    const struct virtual_tcp_received *received;
    const struct virtual_tcp_answer *answers; /* all pointers are valid until the next event */
    uint32_t progress_count, received_count, answers_count;
    uint64_t retransmitted; /* number of segments that the source retransmitted */
    bool is_acknowledged;   /* all data were acknowledged */
    bool has_failed;        /* no connection, ten seconds without progress, or reset */
    bool was_reset;         /* a RST refused or ended the connection */
};
/* Add a connection. Returns its number, or VIRTUAL_NONE if out of memory or if it already
 * exists. */
uint32_t virtual_add_tcp(struct virtual *v, const struct virtual_tcp_config *config);
/* Get the result of a connection. Returns false if data of the connection were lost because memory
 * was short. */
bool virtual_tcp_result(struct virtual *v, uint32_t connection, struct virtual_tcp_result *out);
/* End a connection immediately and free its ports and records. */
void virtual_remove_tcp(struct virtual *v, uint32_t connection);

/* --- applications at hosts -------------------------------------------------------------------- */

/* Open an inbox for the datagrams to a UDP port of a host, for the ICMP messages to a host except
 * echo requests, or for all frames to a host. A host with an inbox for all frames does not respond
 * to any frame itself. Returns VIRTUAL_NONE if the port or inbox is in use, or if out of memory. */
uint32_t virtual_open_udp(struct virtual *v, uint32_t node, uint16_t port);
uint32_t virtual_open_icmp(struct virtual *v, uint32_t node);
uint32_t virtual_open_frames(struct virtual *v, uint32_t node);
/* Return the next inbox that became nonempty, or VIRTUAL_NONE if there are no more. */
uint32_t virtual_inbox_next(struct virtual *v);
/* Empty an inbox. Returns the number of records. `bytes` contains the concatenated bytes of their
 * packets. Records and bytes are valid until the next event. */
uint32_t virtual_inbox_take(struct virtual *v, uint32_t inbox,
                            const struct arrival_record **records, const uint8_t **bytes);
/* Send a frame from a host now. Returns false if out of memory, or if the frame is longer than
 * PACKET_MAX_FRAME. */
bool virtual_send_frame(struct virtual *v, uint32_t node, const uint8_t *frame, uint32_t length);
/* Send a UDP datagram from a host now. Addresses are in network byte order. `tos` is DSCP << 2 |
 * ECN (RFC 3168). */
bool virtual_send_datagram(struct virtual *v, uint32_t node, const uint8_t mac[6], uint32_t address,
                           uint16_t source_port, uint16_t port, uint8_t tos, uint8_t ttl,
                           const uint8_t *payload, uint32_t length);

#endif
