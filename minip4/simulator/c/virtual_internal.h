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

/* The wire at a port of a node. */
struct wire {
    struct node *to; /* NULL: nothing */
    uint16_t to_port;
    uint16_t partition; /* that of `to`, which is not to be touched yet: its number */
};

/* Rarely used data of a switch's port. */
struct port {
    struct capture *captured[3]; /* in, out, lost; each or NULL */
    uint64_t too_long;           /* received frames longer than PACKET_MAX_FRAME */
};

struct fifo {
    struct packet *first, **end;
};

/* The receiver of a flow, as far as each datagram needs it; or an application's port with the inbox `flow`. */
struct listener {
    uint32_t flow; /* its number + 1; 0: none */
    uint16_t port, id;
    uint32_t payload; /* bytes */
    uint8_t tos;
    bool is_application;
};

/* Bytes of a frame's header and a VLAN tag, which interfaces accept beyond their MTU. */
enum { ETHERNET_AND_TAG = 14 + 4 };

struct host {
    struct listener *listeners; /* a hash table by UDP port, at most half full */
    uint32_t address; /* network byte order */
    uint32_t listener_room;
    struct wire wire;
    uint8_t mac[6];
    uint32_t listener_count;
    uint32_t frames; /* the inbox, + 1, that gets all frames; 0: none */
    bool has_application; /* or had one: frames received here may stop the network */
    uint32_t longest_frame; /* bytes, that it takes */
    struct virtual_host_counters counters;
    uint8_t *malformed; /* the first frame of header_errors and checksum_errors; NULL: none */
    uint64_t malformed_ns; /* when it came */
    uint32_t malformed_length;
};

struct switching {
    struct engine *engine;
    const struct virtual_calls *calls;
    uint64_t queued_ns;  /* the earliest time of its entry in the queue `wakes` */
    uint16_t cpu_port;
    bool may_notify;     /* its program has digests */
    bool wants_control;  /* is in the list of switches with messages for the controller */
    struct fifo to_cpu;
    struct node *next_control;
};

/* Data that each packet needs are in the first cache line. */
struct node {
    struct partition *partition;
    struct wire *wire; /* of each port */
    uint16_t ports; /* room of `wire` and `port` */
    bool is_host, is_captured;
    uint32_t number;
    uint32_t load; /* recently received frames, and frames sent by its sources */
    uint16_t place; /* the partition that it is to be in; UINT16_MAX: any */
    union {
        struct host host;
        struct switching switching;
    };
    struct port *port; /* of each */
};

/* A frame that arrives at a node; frames of the controller arrive at port TO_CONTROLLER of its switch. */
struct arrival {
    struct packet *packet;
    struct node *to;
    uint64_t sent_ns;
    uint16_t port;
    uint8_t fetched; /* prefetch steps done */
    uint32_t order;  /* of frames added while no thread ran, for immediate events */
};

/* Frames in flight in the order of arrival; at the same time in the order of sending, then by the number of the
 * destination node and its port. So the order does not depend on the partitions. */
struct flights {
    struct events events; /* `what` is a place in `flight`; `order` counts what this partition sent */
    struct arrival *flight;
    uint32_t *free; /* places that are free: a stack */
    uint32_t room, count, order;
};

enum { TO_CONTROLLER = VIRTUAL_NO_CPU };

/* A source of packets at a host: a flow of datagrams, or unmodified frames. Two cache lines have all data for a
 * short datagram. */
enum { HEADERS = 14 + 20 + 8, HEAD = 64, TRAIL_HOPS = CACHE_LINE / sizeof(uint16_t) };

/* The egress ports of a source's last packet at the switches on its path: the next packet probably takes the
 * same path, so its data can be prefetched. */
struct trail {
    uint16_t port[TRAIL_HOPS];
};

/* Unmodified frames: arrays of times, lengths and bytes. */
struct frames {
    uint64_t *time_ns;
    uint32_t *length;
    uint8_t *bytes, *next_bytes;
};

struct source {
    uint64_t next, count; /* of datagrams or frames; next = count: it has ended */
    struct node *host;
    uint64_t start_ns;
    const uint64_t *due_ns; /* offsets to start_ns; NULL: a steady rate */
    double rate_pps;
    union {
        uint64_t sum;       /* of the UDP checksum, without sequence and time */
        struct frames *frames;
    };
    uint32_t length; /* of each datagram's frame; 0: frames as they are */
    uint8_t head[HEAD]; /* its beginning; zeros follow */
};

/* Data of a flow that are not in its source. */
struct flow {
    struct virtual_flow_config config;
    uint64_t added_ns;
    struct virtual_sent *sent; /* created on request: a flow always keeps its schedule */
    struct virtual_received *received;
    uint64_t received_room;
    struct virtual_flow_result result;
};

/* A received datagram: stored in the order of arrival, so that a thousand flows access as little memory as one;
 * sorted by flow on request. */
struct reception {
    uint64_t sequence, sent_ns, received_ns;
    uint32_t flow;
};

/* A block is a huge page, since small pages cost a page fault per 128 datagrams. When all blocks (128 MB) are
 * full, they are sorted. */
enum { RECEPTION_BLOCK = 1 << 16, RECEPTION_BLOCKS = 64 };

/* A list of the shared data of each program's engines. */
struct program_calls {
    struct program_calls *next;
    struct virtual_calls calls;
};

/* The position of an event in the order of all events of a network, independent of partitions. */
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

/* How often a partition found no work in a run, and since when (0: not for long). */
struct wait {
    uint64_t since_ns;
    uint64_t before_ns; /* the partition's waited_ns when the run began */
    uint32_t count;
    bool is_done; /* with its part of the run */
};

/* The part of one thread: nodes and their events. */
struct partition {
    struct virtual *v;
    uint64_t now_ns, event_count;
    struct packet_pool *pool;
    uint16_t number;
    bool is_short; /* of memory: data were lost, and the run ends */
    bool may_stop; /* a controller or an application may be notified here */
    /* Events, by kind: at the same time the earlier kind comes first. */
    struct flights flights; /* frames that come out of a link */
    struct events wakes;    /* switches with work; `what` is a node, which may not be due any more */
    struct events sends;    /* `what` is a source */
    struct events timers;   /* `what` is the number of a TCP connection's end: see tcp_woken() */
    struct arrival *arrivals; /* of this instant: a ring of a power of two */
    uint32_t arrival_first, arrival_count, arrival_room;
    uint8_t *source_fetched; /* of each source: prefetch steps of its next packet */
    struct trail *trail;     /* of each source, as far as this partition's switches know */
    struct reception *reception[RECEPTION_BLOCKS];
    uint32_t receptions;
    struct node *first_control, **end_control; /* of all but the first partition, since the last partitioning: */
    struct inbox *first_inbox, **end_inbox;    /* it stops the network after the next one */
    struct moment moment; /* of the current or last event; only if it may stop */
    uint64_t last;        /* the event_count at which a run ends */
    struct wait wait;
    uint64_t waited_ns;   /* for other partitions, in real time */
    uint64_t events_before; /* event_count at the last partitioning */
    uint32_t nodes;
    /* What other threads read, too. */
    _Alignas(CACHE_LINE) _Atomic uint64_t clock_ns; /* all before it is done */
    _Alignas(CACHE_LINE) _Atomic uint64_t version;  /* odd: it waits, and this holds: */
    _Atomic uint64_t quiet_next_ns;                 /* when its next event is due */
    _Atomic uint64_t sent, received;                /* frames, to and from other partitions */
};

struct virtual {
    uint64_t now_ns; /* while no partition runs */
    struct partition **partition;
    uint32_t partitions;
    bool is_cut;   /* more than one partition has nodes */
    bool is_stale; /* the cut: something has changed */
    bool is_running;
    uint32_t came; /* frames, while nothing ran */
    bool is_load_known;
    uint32_t cuts_for_load;
    struct threads *threads; /* NULL: one partition */
    struct node **node;
    uint32_t nodes, node_room;
    struct connection **connection; /* NULL: it was removed */
    uint32_t connections, connection_room;
    struct tcp **tcp_bucket; /* a hash table of their ends, by host and port */
    uint32_t tcp_buckets;
    struct source *source;
    struct flow **flow; /* of each source; NULL: it is none, or it was removed */
    uint32_t sources, source_room;
    struct inbox **inbox;
    uint32_t inboxes, inbox_room;
    struct program_calls *programs;
    struct capture_set *captures;
};

/* virtual.c */
/* Makes room for one more item in an array by doubling; false: out of memory. */
bool virtual_room(void *array, uint32_t count, uint32_t *room, size_t size);
/* Whether a partition is short of memory. */
bool virtual_is_short(const struct virtual *v);

/* partition.c */
/* NULL: out of memory. */
struct partition *partition_create(struct virtual *v, uint16_t number);
/* The moment of the first event; its time is UINT64_MAX if there is none. */
struct moment partition_moment(struct partition *p);
/* VIRTUAL_CONTROL or VIRTUAL_INBOX: a controller or application must be notified. Else VIRTUAL_REACHED. */
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

/* Both are inline, since each hop uses them. False: out of memory; the caller still owns the packet. */
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

/* Takes the first one out. */
static inline struct arrival flights_take(struct flights *flights)
{
    uint32_t place = flights->events.heap[0].what;
    flights->free[--flights->count] = place;
    events_remove_first(&flights->events);
    return flights->flight[place];
}

/* loop.c */
/* Sends a frame to the peer of a port, at `due_ns`, which is not before now; owns the packet. */
void virtual_put_on_wire(struct node *from, uint16_t port, struct packet *packet, uint64_t due_ns);
/* Schedules the arrival of a frame at a node of a partition, at `due_ns` or now. False: out of memory. */
bool partition_put(struct partition *p, const struct arrival *arrival, uint64_t due_ns);
/* Takes the first frame that arrives now. */
static inline struct arrival partition_take_arrival(struct partition *p)
{
    struct arrival arrival = p->arrivals[p->arrival_first];
    p->arrival_first = (p->arrival_first + 1) & (p->arrival_room - 1);
    p->arrival_count--;
    return arrival;
}

/* Brings a frame in at once. */
void virtual_arrive(struct partition *p, const struct arrival *arrival);
/* Processes events up to `until_ns`; ends sooner if event_count is `last`, or if the network must stop. */
enum virtual_stop partition_run(struct partition *p, uint64_t until_ns, uint64_t last);
/* When a partition's next event is due; UINT64_MAX: never. */
uint64_t partition_next_ns(struct partition *p);

/* cut.c */
/* Partitions the network again, while no thread runs. False: out of memory. */
bool virtual_cut(struct virtual *v);
/* Whether a node's links have become shorter than the partitioning allows. */
bool virtual_is_nearer(const struct virtual *v, const struct node *node);
/* Whether partitions had such different numbers of events that another partitioning is better. */
bool virtual_is_uneven(const struct virtual *v);

/* threads.c */
/* False: out of memory or threads. */
bool threads_create(struct virtual *v);
void threads_destroy(struct virtual *v);
/* Advances partitions that are at different times, after VIRTUAL_PAUSED, to the latest one: only then may nodes
 * move. VIRTUAL_REACHED: done. */
enum virtual_stop threads_meet(struct virtual *v, uint64_t max_events);
/* virtual_run() of a partitioned network; also VIRTUAL_PAUSED if another partitioning would be better. */
enum virtual_stop threads_run(struct virtual *v, uint64_t until_ns, uint64_t max_events);
/* source.c */
/* When a datagram or frame is due. */
uint64_t source_due_ns(const struct source *source, uint64_t number);
/* Sends the packets due now; returns the next due time. */
uint64_t source_wake(struct partition *p, uint32_t number);
/* Makes room for one more source, and for the trail of packets without source, which is the first. False: out of
 * memory. */
bool sources_make_room(struct virtual *v);
void sources_free(struct virtual *v);

/* record.c */
/* A datagram has arrived at a flow's port: `payload` of `length` bytes. */
void flow_receive(struct partition *p, const struct listener *listener, uint8_t tos,
                  const uint8_t *payload, uint32_t length);
/* Sorts the records into the flows, except those removed since. False: out of memory. */
bool receptions_sort(struct partition *p);
/* The same in all partitions. */
bool virtual_sort(struct virtual *v);
void receptions_free(struct partition *p);

/* The variable fields of the headers of a UDP datagram. */
struct datagram {
    const struct host *from;
    const uint8_t *to_mac;
    uint32_t to_address; /* network byte order */
    uint16_t source_port, destination_port;
    uint8_t tos, ttl;
    uint32_t payload; /* bytes */
};
/* Writes HEADERS bytes without the UDP checksum; returns the part of its sum that does not depend on the payload. */
uint64_t datagram_head(uint8_t *head, const struct datagram *datagram);

/* application.c */
enum { MAX_INBOX = 1 << 30 /* bytes */ };
/* An application receives `bytes` now, with the data of the record. */
void inbox_add(struct partition *p, uint32_t number, struct arrival_record record,
               const uint8_t *bytes);
void inboxes_free(struct virtual *v);

/* host.c */
/* False: out of memory, or the port is in use. */
bool host_listen(struct host *host, const struct listener *listener);
void host_close(struct host *host, uint16_t port);
void host_receive(struct node *node, struct packet *packet);
void host_free(struct host *host);

/* tcp.c */
/* The end of a connection of an event of `timers`; NULL: the event is obsolete. */
struct tcp *tcp_woken(const struct virtual *v, const struct event *event);
void tcp_wake(struct tcp *t);
/* The host of an end by its number; NULL: it was removed. */
struct node *tcp_host(const struct virtual *v, uint32_t number);
void connections_free(struct virtual *v);

/* tcp_input.c */
/* A host receives a segment of a complete IP packet. */
void tcp_receive(struct node *node, const uint8_t *ip, const uint8_t *bytes, uint32_t length);

/* checksum.c */
/* The ones' complement sum of bytes that begin at an even offset (RFC 1071), added to `sum`. */
uint64_t checksum_add(uint64_t sum, const uint8_t *bytes, uint32_t length);
uint16_t checksum_fold(uint64_t sum);

#endif
