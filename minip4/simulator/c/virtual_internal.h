/* Structures shared by the source files of the virtual network. */
#ifndef MINIP4_VIRTUAL_INTERNAL_H
#define MINIP4_VIRTUAL_INTERNAL_H

#include <stdatomic.h>

#include "capture.h"
#include "memory.h"
#include "events.h"
#include "flow_payload.h"
#include "virtual.h"

struct node;
struct partition;
struct threads;
struct connection;
struct tcp;

/* The wire at a port of a node, in one direction. */
struct wire {
    struct node *to; /* NULL if the port is not connected */
    uint16_t to_port;
    uint16_t partition; /* copy of to->partition; so `to` need not be read */
};

/* Rarely used data of a switch's port. */
struct port {
    struct capture *captured[3]; /* captures in, out and lost; each may be NULL */
    uint64_t too_long;           /* received frames longer than PACKET_MAX_FRAME */
};

struct fifo {
    struct packet *first, **end;
};

/* A UDP port of a host. The port belongs to a flow that the host receives, or to an application.
 * For a flow, the structure contains the data that each datagram must match. For an application,
 * `flow` is the number of the inbox. */
struct listener {
    uint32_t flow; /* number of the flow + 1; 0 means no flow */
    uint16_t port, id;
    uint32_t payload; /* bytes */
    uint8_t tos;
    bool is_application;
};

/* Length of Ethernet header and VLAN tag. Interfaces accept these in addition to their MTU. */
enum { ETHERNET_AND_TAG = 14 + 4 };

struct host {
    struct listener *listeners; /* a hash table by UDP port, at most half full */
    uint32_t address; /* in network byte order */
    uint32_t listener_room;
    struct wire wire;
    uint8_t mac[6];
    uint32_t listener_count;
    uint32_t frames; /* number of the inbox that receives all frames, + 1; 0 means no such inbox */
    uint32_t icmp;   /* likewise of the inbox that receives ICMP messages */
    /* has or had an application, so frames received here may stop the network */
    bool has_application;
    uint32_t longest_frame; /* maximum length of received frames, in bytes */
    struct virtual_host_counters counters;
    uint8_t *malformed; /* first frame counted in header_errors or checksum_errors, or NULL */
    uint64_t malformed_ns; /* arrival time of this frame */
    uint32_t malformed_length;
};

struct switching {
    struct engine *engine;
    const struct virtual_calls *calls;
    uint64_t queued_ns;  /* time of the earliest entry of the switch in the queue `wakes` */
    uint16_t cpu_port;
    bool may_notify;     /* the program has digests */
    bool wants_control;  /* in the list of switches with messages for the controller */
    struct fifo to_cpu;
    struct node *next_control;
};

/* A switch or a host. The data that each packet needs are in the first cache line. */
struct node {
    struct partition *partition;
    struct wire *wire; /* one per port */
    uint16_t ports; /* capacity of `wire` and `port` */
    bool is_host, is_captured;
    uint32_t number;
    uint32_t load; /* recent work: number of frames received, and of frames sent by sources */
    uint16_t place; /* partition requested by virtual_place(); UINT16_MAX means any partition */
    union {
        struct host host;
        struct switching switching;
    };
    struct port *port; /* one per port */
};

/* A frame that arrives at a node. Frames from the controller arrive at port TO_CONTROLLER of the
 * switch. */
struct arrival {
    struct packet *packet;
    struct node *to;
    uint64_t sent_ns;
    uint16_t port;
    uint8_t fetched; /* number of prefetch steps done */
    uint32_t order;  /* order among frames added while no thread ran */
};

/* Frames in flight, ordered by arrival time, then by sending time, then by number and port of the
 * destination node. So the order does not depend on the partitions. */
struct flights {
    /* `what` is an index in `flight`; `order` counts the frames sent by this partition */
    struct events events;
    struct arrival *flight;
    uint32_t *free; /* stack of the free indices in `flight` */
    uint32_t room, count, order;
};

enum { TO_CONTROLLER = VIRTUAL_NO_CPU };

/* A source of packets on a host: a flow of datagrams, or unmodified frames. All data for a short
 * datagram are in two cache lines. */
enum { HEADERS = 14 + 20 + 8, HEAD = 64, TRAIL_HOPS = CACHE_LINE / sizeof(uint16_t) };

/* The egress ports of a source's last packet at the switches on its path. The next packet probably
 * has the same path, so its data can be prefetched. */
struct trail {
    uint16_t port[TRAIL_HOPS];
};

/* Unmodified frames: arrays of times and lengths, and the concatenated bytes. */
struct frames {
    uint64_t *time_ns;
    uint32_t *length;
    uint8_t *bytes, *next_bytes;
};

struct source {
    /* numbers of datagrams or frames; next == count means that the source has finished */
    uint64_t next, count;
    struct node *host;
    uint64_t start_ns;
    const uint64_t *due_ns; /* offsets to start_ns; NULL means a constant rate */
    double rate_pps;
    union {
        /* constant part of the UDP checksum, without sequence number and time */
        uint64_t sum;
        struct frames *frames;
    };
    uint32_t length; /* length of each datagram's frame; 0 means unmodified frames */
    uint8_t head[HEAD]; /* start of the frame; zeros follow */
};

/* Data of a flow that are not in its source. */
struct flow {
    struct virtual_flow_config config;
    uint64_t added_ns;
    /* created on request from the schedule, because a flow in virtual time sends at exactly these
     * times */
    struct virtual_sent *sent;
    struct virtual_received *received;
    uint64_t received_room;
    struct virtual_flow_result result;
};

/* A received datagram. Such records are stored in order of arrival, and are sorted by flow on
 * request. So a thousand flows access as little memory as one flow. */
struct reception {
    uint64_t sequence, sent_ns, received_ns;
    uint32_t flow;
};

/* A block is a huge page, because small pages cost a page fault per 128 datagrams. When all blocks
 * (128 MB) are full, they are sorted. */
enum { RECEPTION_BLOCK = 1 << 16, RECEPTION_BLOCKS = 64 };

/* A list with the functions of each program's engines. */
struct program_calls {
    struct program_calls *next;
    struct virtual_calls calls;
};

/* The position of an event in the order of all events of the network. This order does not depend on
 * partitions. */
struct moment {
    uint64_t time_ns, sent_ns;
    uint64_t number; /* of a node and its port, a switch, a source, or an end of a connection */
    uint32_t kind;
};

static inline bool moment_is_before(const struct moment *a, const struct moment *b)
{
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns;
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return a->sent_ns != b->sent_ns ? a->sent_ns < b->sent_ns : a->number < b->number;
}

/* The number of polls in which a partition has found no work since its last event, and when this
 * wait began (0 if it is short). */
struct poll_wait {
    uint64_t since_ns;
    uint64_t before_ns; /* waited_ns of the partition at the start of the run */
    uint32_t count;
    bool is_done; /* the partition has finished its part of the run */
};

/* The nodes and events of one thread. */
struct partition {
    struct virtual *v;
    uint64_t now_ns, event_count;
    struct packet_pool *pool;
    uint16_t number;
    bool is_short; /* memory was short, so data were lost, and the run ends */
    bool may_stop; /* the partition contains nodes with messages for controllers or applications */
    /* Queues of events. If events are due at the same time, those of an earlier queue come
     * first. */
    struct flights flights; /* frames that arrive from a link */
    /* switches with work; `what` is the number of a node; the node may have no work any more */
    struct events wakes;
    struct events sends;    /* `what` is a source */
    /* `what` is the number of an end of a TCP connection, see tcp_woken() */
    struct events timers;
    struct arrival *arrivals; /* frames that arrive now; a ring whose size is a power of two */
    uint32_t arrival_first, arrival_count, arrival_room;
    uint8_t *source_fetched; /* per source: prefetch steps done for its next packet */
    struct trail *trail;     /* per source, for switches in this partition */
    struct reception *reception[RECEPTION_BLOCKS];
    uint32_t receptions;
    /* Nodes and inboxes with messages. In partitions other than the first, these lists contain
     * only messages since the last partitioning; the network stops for them after the next
     * partitioning. */
    struct node *first_control, **end_control;
    struct inbox *first_inbox, **end_inbox;
    struct moment moment; /* position of the current or last event; set only if may_stop */
    uint64_t last;        /* event_count at which a run ends */
    struct poll_wait wait;
    uint64_t waited_ns;   /* time spent waiting for other partitions, in real time */
    uint64_t events_before; /* event_count at the last partitioning */
    uint32_t nodes;
    /* Data that other threads read. */
    _Alignas(CACHE_LINE) _Atomic uint64_t clock_ns; /* all events before this time are processed */
    /* if it is odd, the partition waits, and quiet_next_ns is valid */
    _Alignas(CACHE_LINE) _Atomic uint64_t version;
    _Atomic uint64_t quiet_next_ns;                 /* time of the next event */
    /* number of frames sent to and received from other partitions */
    _Atomic uint64_t sent, received;
};

struct virtual {
    uint64_t now_ns; /* valid while no partition runs */
    struct partition **partition;
    uint32_t partitions;
    bool is_cut;   /* more than one partition has nodes */
    bool is_stale; /* the network changed after the last partitioning */
    bool is_running;
    uint32_t came; /* frames added while no thread ran */
    bool is_load_known;
    uint32_t cuts_for_load;
    struct threads *threads; /* NULL if there is only one partition */
    struct node **node;
    uint32_t nodes, node_room;
    struct connection **connection; /* NULL if the connection was removed */
    uint32_t connections, connection_room;
    struct tcp **tcp_bucket; /* hash table of the connections' ends, by host and port */
    uint32_t tcp_buckets;
    struct source *source;
    struct flow **flow; /* per source; NULL if it is not a flow or was removed */
    uint32_t sources, source_room;
    struct inbox **inbox;
    uint32_t inboxes, inbox_room;
    struct program_calls *programs;
    struct capture_set *captures;
};

/* virtual.c */
/* Ensure that an array has room for one more item, by doubling it. Returns false if out of
 * memory. */
bool virtual_room(void *array, uint32_t count, uint32_t *room, size_t size);
/* Return whether a partition is out of memory. */
bool virtual_is_short(const struct virtual *v);

/* partition.c */
/* Create a partition. Returns NULL if out of memory. */
struct partition *partition_create(struct virtual *v, uint16_t number);
/* Return the moment of the first event; its time is UINT64_MAX if there is no event. */
struct moment partition_moment(struct partition *p);
/* Return VIRTUAL_CONTROL or VIRTUAL_INBOX if a controller or application must be notified.
 * Otherwise, return VIRTUAL_REACHED. */
static inline enum virtual_stop partition_stop(const struct partition *p)
{
    if (p->first_control && !p->number)
        return VIRTUAL_CONTROL;
    return p->first_inbox && !p->number ? VIRTUAL_INBOX : VIRTUAL_REACHED;
}
void partition_free(struct partition *p);

/* flights.c */
bool flights_make_room(struct flights *flights);
void flights_free(struct flights *flights);

/* Add a frame. This function and flights_take() are inline, because each hop uses them. Returns
 * false if out of memory; the caller then still owns the packet. */
static inline bool flights_add(struct flights *flights, const struct arrival *arrival, uint64_t due_ns)
{
    if (flights->count == flights->room && !flights_make_room(flights))
        return false;
    uint32_t place = flights->free[flights->count];
    flights->flight[place] = *arrival;
    if (!events_add(&flights->events, (struct event){due_ns, flights->order++, place}))
        return false;
    flights->count++;
    return true;
}

/* Remove and return the first frame. */
static inline struct arrival flights_take(struct flights *flights)
{
    uint32_t place = flights->events.heap[0].what;
    flights->free[--flights->count] = place;
    events_remove_first(&flights->events);
    return flights->flight[place];
}

/* loop.c */
/* Send a frame to the peer of a port at the time `due_ns` (not before now). Takes ownership of the
 * packet. */
void virtual_put_on_wire(struct node *from, uint16_t port, struct packet *packet, uint64_t due_ns);
/* Schedule the arrival of a frame at a node of a partition, at `due_ns` or now. Returns false if
 * out of memory. */
bool partition_put(struct partition *p, const struct arrival *arrival, uint64_t due_ns);
/* Remove and return the first frame that arrives now. */
static inline struct arrival partition_take_arrival(struct partition *p)
{
    struct arrival arrival = p->arrivals[p->arrival_first];
    p->arrival_first = (p->arrival_first + 1) & (p->arrival_room - 1);
    p->arrival_count--;
    return arrival;
}

/* Process the arrival of a frame now. */
void virtual_arrive(struct partition *p, const struct arrival *arrival);
/* Process events up to `until_ns`. Ends earlier if event_count reaches `last`, or if the network
 * must stop. */
enum virtual_stop partition_run(struct partition *p, uint64_t until_ns, uint64_t last);
/* Return when a partition's next event is due, or UINT64_MAX if there is none. */
uint64_t partition_next_ns(struct partition *p);

/* cut.c */
/* Partition the network again, while no thread runs. Returns false if out of memory. */
bool virtual_cut(struct virtual *v);
/* Return whether a link of a node is now shorter than the partitioning allows. */
bool virtual_is_nearer(const struct virtual *v, const struct node *node);
/* Return whether the numbers of events in the partitions differ so much that a new partitioning is
 * better. */
bool virtual_is_uneven(const struct virtual *v);

/* threads.c */
/* Returns false if out of memory, or if a thread cannot be created. */
bool threads_create(struct virtual *v);
void threads_destroy(struct virtual *v);
/* Advance partitions that are at different times after VIRTUAL_PAUSED to the latest of these times.
 * Only then may nodes move to other partitions. Returns VIRTUAL_REACHED when done. */
enum virtual_stop threads_meet(struct virtual *v, uint64_t max_events);
/* Do virtual_run() for a partitioned network. Also returns VIRTUAL_PAUSED if a new partitioning
 * would be better. */
enum virtual_stop threads_run(struct virtual *v, uint64_t until_ns, uint64_t max_events);
/* source.c */
/* Return when a datagram or frame of a source is due. */
uint64_t source_due_ns(const struct source *source, uint64_t number);
/* Send the packets of a source that are due now. Returns the next due time. */
uint64_t source_wake(struct partition *p, uint32_t number);
/* Ensure room for one more source. The first element is for the trail of packets without a source.
 * Returns false if out of memory. */
bool sources_make_room(struct virtual *v);
void sources_free(struct virtual *v);

/* record.c */
/* Process a datagram for a flow's port, with `length` bytes of payload. */
void flow_receive(struct partition *p, const struct listener *listener, uint8_t tos,
                  const uint8_t *payload, uint32_t length);
/* Moves each record to its flow. Discards records of removed flows. Returns false if out of
 * memory. */
bool receptions_sort(struct partition *p);
/* Sort the records of all partitions. */
bool virtual_sort(struct virtual *v);
void receptions_free(struct partition *p);

/* The variable fields of the headers of a UDP datagram. */
struct datagram {
    const struct host *from;
    const uint8_t *to_mac;
    uint32_t to_address; /* in network byte order */
    uint16_t source_port, destination_port;
    uint8_t tos, ttl;
    uint32_t payload; /* bytes */
};
/* Write HEADERS bytes of headers without the UDP checksum. Returns the sum for the checksum without
 * the payload. */
uint64_t datagram_head(uint8_t *head, const struct datagram *datagram);

/* application.c */
enum { MAX_INBOX = 1 << 30 /* bytes */ };
/* Add `bytes` to an inbox now, with the data of the record. */
void inbox_add(struct partition *p, uint32_t number, struct arrival_record record,
               const uint8_t *bytes);
void inboxes_free(struct virtual *v);

/* host.c */
/* Add a listener to a host. Returns false if out of memory, or if the port is in use. */
bool host_listen(struct host *host, const struct listener *listener);
void host_close(struct host *host, uint16_t port);
void host_receive(struct node *node, struct packet *packet);
void host_free(struct host *host);

/* tcp.c */
/* Return the end of a connection that an event of `timers` wakes, or NULL if the event is
 * obsolete. */
struct tcp *tcp_woken(const struct virtual *v, const struct event *event);
void tcp_wake(struct tcp *t);
/* Return the host of the end with this number, or NULL if the connection was removed. */
struct node *tcp_host(const struct virtual *v, uint32_t number);
void connections_free(struct virtual *v);

/* tcp_input.c */
/* Receive a segment of a complete IP packet at a host. */
void tcp_receive(struct node *node, const uint8_t *ip, const uint8_t *bytes, uint32_t length);

/* checksum.c */
/* Add the ones' complement sum of bytes that begin at an even offset (RFC 1071) to `sum`. */
uint64_t checksum_add(uint64_t sum, const uint8_t *bytes, uint32_t length);
uint16_t checksum_fold(uint64_t sum);

#endif
