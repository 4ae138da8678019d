/* A virtual network: engines, hosts and wires in virtual time. It has no clock: the same calls result in the
 * same events, to the bit, on one thread or on several. Order of events at the same time: arriving frames, in
 * the order of sending, then by destination node and port; then switches, sources, and ends of TCP connections,
 * each in the order of adding. */
#ifndef MINIP4_VIRTUAL_H
#define MINIP4_VIRTUAL_H

#include <stddef.h>

#include "arrival.h"
#include "engine.h"

enum { VIRTUAL_NO_CPU = 0xffff, VIRTUAL_NONE = UINT32_MAX, VIRTUAL_MAX_THREADS = 64 };

/* The functions of an engine: the shared object of each P4 program has its own. */
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

/* `threads`: 1 to VIRTUAL_MAX_THREADS, including the caller of virtual_run(). NULL: out of memory or threads. */
struct virtual *virtual_create(uint64_t now_ns, uint32_t threads);
/* Called after the engines were freed. Returns 0, or -1 with an error of the captures in `error`. */
int virtual_destroy(struct virtual *v, char *error, size_t error_size);
/* For engine_share_pool(). */
struct packet_pool *virtual_pool(struct virtual *v);
/* The limit of packets in the whole network. */
uint64_t virtual_max_packets(void);
uint64_t virtual_now(const struct virtual *v);

/* Nodes are numbered in the order in which they are added; VIRTUAL_NONE: out of memory. */
uint32_t virtual_add_switch(struct virtual *v, uint16_t cpu_port);
/* `mtu`: bytes of the longest IP packet that it receives; sent packets are not checked. */
uint32_t virtual_add_host(struct virtual *v, const uint8_t mac[6], uint32_t address, uint32_t mtu);
/* Connects ports of two nodes by a wire without delay. False: out of memory, or a host's port is not 0. */
bool virtual_connect(struct virtual *v, uint32_t node, uint16_t port, uint32_t other,
                     uint16_t other_port);
/* Sets or replaces the engine of a switch; its ports are those connected so far. `may_notify`: its program has
 * digests. False: out of memory. */
bool virtual_set_engine(struct virtual *v, uint32_t node, struct engine *engine,
                        const struct virtual_calls *calls, bool may_notify);
/* Assigns a node, and nodes that cannot be separated from it, to a partition, unless they may stop the network.
 * Results do not change. */
void virtual_place(struct virtual *v, uint32_t node, uint16_t partition);

struct virtual_partition {
    uint64_t events, sent; /* until now; sent: frames to other partitions */
    uint64_t waited_ns;    /* for other partitions, in real time */
    uint64_t lookahead_ns; /* how far it may advance beyond others; UINT64_MAX: not limited */
    uint32_t nodes;
    bool may_stop;         /* switches with digests or a CPU port, hosts with applications: all in one */
};
/* The state of a partition, numbered from 0, since the last run. */
void virtual_partition(const struct virtual *v, uint32_t number, struct virtual_partition *out);
/* Captures frames received or sent by a switch's port, or lost by its link: `what` is 0, 1, 2. Before
 * virtual_set_engine(). Returns 0, or -1 with errno set. */
int virtual_capture(struct virtual *v, uint32_t node, uint16_t port, int what, const char *path,
                    uint32_t snaplen);
/* Recomputes when a switch is due, after its links or queues were changed. */
void virtual_refresh(struct virtual *v, uint32_t node);
/* Frames in flight on a port's link, which its engine counts as delivered. */
void virtual_flying(const struct virtual *v, uint32_t node, uint16_t port, uint64_t *packets,
                    uint64_t *bytes);
/* Frames received by a switch's port that are longer than PACKET_MAX_FRAME: its engine never sees them. */
uint64_t virtual_too_long(const struct virtual *v, uint32_t node, uint16_t port);

enum virtual_stop {
    VIRTUAL_REACHED, /* all events up to until_ns are processed; the time is until_ns, or (UINT64_MAX) that of
                      * the last event */
    VIRTUAL_CONTROL, /* a switch has messages for its controller: virtual_control_next() */
    VIRTUAL_PAUSED,  /* after max_events (on several threads, approximately); threads are then at different
                      * times: only virtual_place() and virtual_run() may follow */
    VIRTUAL_SHORT,   /* of packets or other memory: data were lost, so results would be wrong */
    VIRTUAL_INBOX    /* an application has received packets: virtual_inbox_next() */
};
enum virtual_stop virtual_run(struct virtual *v, uint64_t until_ns, uint64_t max_events);
/* Events since the start: frames that arrived or were sent, and switches that were woken. */
uint64_t virtual_events(const struct virtual *v);
/* The events processed while all threads ran; one thread processes the others. */
uint64_t virtual_at_once(const struct virtual *v);
/* When the next event is due; UINT64_MAX: never. */
uint64_t virtual_next(struct virtual *v);

/* --- the control plane ------------------------------------------------------------------------ */

/* Returns the next switch with digests or frames for its controller; VIRTUAL_NONE: no more. */
uint32_t virtual_control_next(struct virtual *v);
/* Copies the next frame for a switch's controller into `room`, of PACKET_ROOM + PACKET_MAX_FRAME
 * bytes; returns its length, or 0. */
uint32_t virtual_cpu_read(struct virtual *v, uint32_t node, uint8_t *room);
/* Sends a frame from the controller; -1: longer than PACKET_MAX_FRAME, or out of memory. */
int virtual_cpu_write(struct virtual *v, uint32_t node, const uint8_t *frame, uint32_t length);

/* --- hosts ------------------------------------------------------------------------------------ */

struct virtual_host_counters {
    uint64_t sent, received;   /* frames */
    uint64_t too_long;         /* frames that it did not take */
    uint64_t other_addresses;  /* not for this host's MAC or IP address */
    uint64_t header_errors;    /* ARP, and IPv4 headers: malformed, or with a wrong checksum */
    uint64_t checksum_errors;  /* UDP, TCP or ICMP: a wrong checksum or length */
    uint64_t unclaimed;        /* for a protocol or port without a listener */
};
void virtual_host_counters(struct virtual *v, uint32_t node, struct virtual_host_counters *out);
/* Copies the first frame that a host counted in header_errors or checksum_errors into `room`, of PACKET_ROOM +
 * PACKET_MAX_FRAME bytes. Returns its length, or 0 if there is none. */
uint32_t virtual_first_malformed(const struct virtual *v, uint32_t node, uint64_t *time_ns,
                                 uint8_t *room);

struct virtual_flow_config {
    uint32_t source, destination; /* hosts: the UDP datagrams go from one to the other */
    uint16_t id, source_port, destination_port;
    uint8_t tos, ttl;
    uint32_t payload;       /* bytes, at least those of struct flow_payload */
    uint64_t count, start_ns;
    double rate_pps;        /* datagram i is due at start_ns + i / rate; or: */
    const uint64_t *due_ns; /* ... at start_ns + due_ns[i], ascending (copied); or NULL */
};
/* Returns a flow's number, or VIRTUAL_NONE: out of memory, or another flow uses this port of the host. */
uint32_t virtual_add_flow(struct virtual *v, const struct virtual_flow_config *config);

struct virtual_sent {
    uint64_t sequence, sent_ns;
};
struct virtual_received {
    uint64_t sequence, sent_ns, received_ns;
};
struct virtual_flow_result {
    const struct virtual_sent *sent;
    const struct virtual_received *received; /* both valid until the next event */
    uint64_t sent_count, received_count;
    uint64_t foreign, dscp_changed;
};
/* False: memory is, or was, short. */
bool virtual_flow_result(struct virtual *v, uint32_t flow, struct virtual_flow_result *out);
/* Ends a flow and frees its port and its records. */
void virtual_remove_flow(struct virtual *v, uint32_t flow);

/* Sends unmodified frames from a host, each at its time (ascending; not before now); `bytes` has the
 * concatenated frames. False: out of memory, or a frame is longer than PACKET_MAX_FRAME. */
bool virtual_send_frames(struct virtual *v, uint32_t node, uint64_t count, const uint64_t *time_ns,
                         const uint32_t *length, const uint8_t *bytes);

/* --- TCP -------------------------------------------------------------------------------------- */

enum virtual_congestion { TCP_RENO, TCP_CUBIC, TCP_DCTCP };

struct virtual_tcp_config {
    uint32_t source, destination; /* hosts: the first opens the connection, and sends */
    uint32_t isn[2];              /* initial sequence numbers of both */
    uint16_t source_port, destination_port;
    uint8_t tos;        /* DSCP << 2 */
    uint8_t congestion; /* enum virtual_congestion */
    bool has_ecn;
    uint64_t bytes, duration_ns; /* one is 0, and the other ends the flow */
    uint64_t start_ns;
    double rate_bps; /* of the application; 0: unlimited */
    uint64_t on_ns, off_ns; /* alternating times with and without writes; 0: always writes */
    uint64_t request_bytes, response_bytes, think_ns; /* `bytes` are requests, each of which waits for the
                                                       * previous response; 0: none */
};
struct virtual_tcp_progress {
    uint64_t time_ns, written, acknowledged; /* bytes */
    uint32_t retransmitted, window;          /* segments */
    uint32_t rtt_us, zero;
};
struct virtual_tcp_received {
    uint64_t time_ns, bytes; /* in all until then */
};
struct virtual_tcp_answer {
    uint64_t asked_ns, answered_ns; /* the request was written; the response was complete */
};
struct virtual_tcp_result {
    const struct virtual_tcp_progress *progress; /* every 10 ms, and when all data were acknowledged */
    const struct virtual_tcp_received *received;
    const struct virtual_tcp_answer *answers; /* all valid until the next event */
    uint32_t progress_count, received_count, answers_count;
    uint64_t retransmitted; /* segments, by the end that opens */
    bool is_acknowledged;   /* all of it */
    bool has_failed;        /* no connection, no progress for ten seconds, or reset */
    bool was_reset;         /* refused or ended by a RST */
};
/* Returns a connection's number, or VIRTUAL_NONE: out of memory, or it exists already. */
uint32_t virtual_add_tcp(struct virtual *v, const struct virtual_tcp_config *config);
/* False: memory is, or was, short. */
bool virtual_tcp_result(struct virtual *v, uint32_t connection, struct virtual_tcp_result *out);
/* Ends a connection immediately and frees its ports and its records. */
void virtual_remove_tcp(struct virtual *v, uint32_t connection);

/* --- applications at hosts -------------------------------------------------------------------- */

/* Opens an inbox for the datagrams to a UDP port of a host, or for all frames to it; then it answers nothing
 * itself. VIRTUAL_NONE: it is in use, or out of memory. */
uint32_t virtual_open_udp(struct virtual *v, uint32_t node, uint16_t port);
uint32_t virtual_open_frames(struct virtual *v, uint32_t node);
/* Returns the next inbox that became nonempty; VIRTUAL_NONE: no more. */
uint32_t virtual_inbox_next(struct virtual *v);
/* Empties an inbox; returns the number of records. They are valid until the next event; `bytes` has their
 * concatenated bytes. */
uint32_t virtual_inbox_take(struct virtual *v, uint32_t inbox,
                            const struct arrival_record **records, const uint8_t **bytes);
/* Sends a frame from a host now. False: out of memory, or it is longer than PACKET_MAX_FRAME. */
bool virtual_send_frame(struct virtual *v, uint32_t node, const uint8_t *frame, uint32_t length);
/* The same with a UDP datagram; addresses in network byte order. `tos`: DSCP << 2 | ECN (RFC 3168). */
bool virtual_send_datagram(struct virtual *v, uint32_t node, const uint8_t mac[6], uint32_t address,
                           uint16_t source_port, uint16_t port, uint8_t tos,
                           const uint8_t *payload, uint32_t length);

#endif
