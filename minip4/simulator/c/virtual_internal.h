/* The structures that the source files of the virtual network share. */
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

/* What is plugged in at one port of a node. */
struct wire {
    struct node *to; /* NULL: nothing */
    uint16_t to_port;
    uint16_t partition; /* that of `to`, which is not to be touched yet: its number */
};

/* What few frames need of a switch's port. */
struct port {
    struct capture *captured[3]; /* in, out, lost; each or NULL */
    uint64_t too_long;           /* frames that came and were longer than PACKET_MAX_FRAME */
};

struct fifo {
    struct packet *first, **end;
};

/* A flow's end, as far as each datagram needs it; or an application's port, whose inbox is `flow`. */
struct listener {
    uint32_t flow; /* its number + 1; 0: none */
    uint16_t port, id;
    uint32_t payload; /* bytes */
    uint8_t tos;
    bool is_application;
};

/* Bytes of a frame's header, and of a VLAN tag, for which interfaces leave room beyond their MTU. */
enum { ETHERNET_AND_TAG = 14 + 4 };

struct host {
    struct listener *listeners; /* a hash table by UDP port, at most half full */
    uint32_t address; /* network byte order */
    uint32_t listener_room;
    struct wire wire;
    uint8_t mac[6];
    uint32_t listener_count;
    uint32_t frames; /* the inbox, + 1, that gets all frames; 0: none */
    bool has_application; /* or had one: what comes here may stop the network */
    uint32_t longest_frame; /* bytes, that it takes */
    struct virtual_host_counters counters;
    uint8_t *malformed; /* the first frame of header_errors and checksum_errors; NULL: none */
    uint64_t malformed_ns; /* when it came */
    uint32_t malformed_length;
};

struct switching {
    struct engine *engine;
    const struct virtual_calls *calls;
    uint64_t queued_ns;  /* the earliest time for which it stands in the queue `wakes` */
    uint16_t cpu_port;
    bool may_notify;     /* its program has digests */
    bool wants_control;  /* is in the list of those that have something for the controller */
    struct fifo to_cpu;
    struct node *next_control;
};

/* What each packet needs of a switch lies in the first cache line. */
struct node {
    struct partition *partition;
    struct wire *wire; /* of each port */
    uint16_t ports; /* room of `wire` and `port` */
    bool is_host, is_captured;
    uint32_t number;
    uint32_t load; /* frames that came here of late, and that its sources sent */
    uint16_t place; /* the partition that it is to be in; UINT16_MAX: any */
    union {
        struct host host;
        struct switching switching;
    };
    struct port *port; /* of each */
};

/* A frame that arrives at a node; of a controller's own switch at port TO_CONTROLLER. */
struct arrival {
    struct packet *packet;
    struct node *to;
    uint64_t sent_ns;
    uint16_t port;
    uint8_t fetched; /* steps in which its memory was brought into the cache */
    uint32_t order;  /* of those that came while nothing ran, for what is due at once */
};

/* Frames on their way, in the order in which they will arrive: at the same time those that were sent
 * first, then by the number of the node to which they come, and by its port. So the order does not
 * depend on how the network is cut into partitions. */
struct flights {
    struct events events; /* `what` is a place in `flight`; `order` counts what this partition sent */
    struct arrival *flight;
    uint32_t *free; /* places that are free: a stack */
    uint32_t room, count, order;
};

enum { TO_CONTROLLER = VIRTUAL_NO_CPU };

/* What a host sends by itself: a flow of datagrams, or frames as they are. In two cache lines all
 * that a short datagram needs. */
enum { HEADERS = 14 + 20 + 8, HEAD = 64, TRAIL_HOPS = CACHE_LINE / sizeof(uint16_t) };

/* The ports by which a source's last packet left the switches on its way: the next probably goes the same
 * way, so what it needs there can be fetched. */
struct trail {
    uint16_t port[TRAIL_HOPS];
};

/* Frames as they are: times, lengths and bytes, each in an array of its own. */
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

/* What is kept of a flow beside its source. */
struct flow {
    struct virtual_flow_config config;
    uint64_t added_ns;
    struct virtual_sent *sent; /* made when it is asked for: a flow always keeps its schedule */
    struct virtual_received *received;
    uint64_t received_room;
    struct virtual_flow_result result;
};

/* A datagram that arrived: kept in the order of arrival, so that a thousand flows touch as little
 * memory as one; sorted by flow when that is asked for. */
struct reception {
    uint64_t sequence, sent_ns, received_ns;
    uint32_t flow;
};

/* A block is a huge page: the first touch of a small one, of each 128 datagrams, costs a page fault.
 * When all blocks are full, 128 MB, they are sorted. */
enum { RECEPTION_BLOCK = 1 << 16, RECEPTION_BLOCKS = 64 };

/* A list: what the engines of each program share. */
struct program_calls {
    struct program_calls *next;
    struct virtual_calls calls;
};

/* Where an event stands in the order of all events of a network, whatever its partition. */
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

/* Of a partition in a run: how often it found nothing to do, and since when (0: not for long). */
struct wait {
    uint64_t since_ns;
    uint64_t before_ns; /* the partition's waited_ns when the run began */
    uint32_t count;
    bool is_done; /* with its part of the run */
};

/* What one thread runs: nodes, and all that is due at them. */
struct partition {
    struct virtual *v;
    uint64_t now_ns, event_count;
    struct packet_pool *pool;
    uint16_t number;
    bool is_short; /* of memory: something was lost, and the run is over */
    bool may_stop; /* a controller or an application may be notified here */
    /* Events, by kind: at the same time the earlier kind comes first. */
    struct flights flights; /* frames that come out of a link */
    struct events wakes;    /* switches with work; `what` is a node, which may not be due any more */
    struct events sends;    /* `what` is a source */
    struct events timers;   /* `what` is the number of a TCP connection's end: see tcp_woken() */
    struct arrival *arrivals; /* of this instant: a ring of a power of two */
    uint32_t arrival_first, arrival_count, arrival_room;
    uint8_t *source_fetched; /* of each source: as in an arrival, for what it will send next */
    struct trail *trail;     /* of each source, as far as this partition's switches know */
    struct reception *reception[RECEPTION_BLOCKS];
    uint32_t receptions;
    struct node *first_control, **end_control; /* of all but the first partition what came since the last cut: */
    struct inbox *first_inbox, **end_inbox;    /* it stops the network after the next one */
    struct moment moment; /* of the event that is done, or was last; only where it may stop */
    uint64_t last;        /* the event_count at which a run ends */
    struct wait wait;
    uint64_t waited_ns;   /* for other partitions, in real time */
    uint64_t events_before; /* event_count when the network was last cut */
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
/* Makes room for one more item in an array that doubles; false: no memory. */
bool virtual_room(void *array, uint32_t count, uint32_t *room, size_t size);
/* Whether a partition is short of memory. */
bool virtual_is_short(const struct virtual *v);

/* partition.c */
/* NULL: out of memory. */
struct partition *partition_create(struct virtual *v, uint16_t number);
/* That of the first event that is due; its time is UINT64_MAX when there is none. */
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

/* Both here, since each hop does them. False: out of memory, and the packet is still its owner's. */
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
/* Hands a frame to whatever is plugged in at a port, at `due_ns`, which is not before now; owns the
 * packet. */
void virtual_put_on_wire(struct node *from, uint16_t port, struct packet *packet, uint64_t due_ns);
/* Has a frame arrive at a node of a partition, at `due_ns` or now. False: out of memory. */
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
/* Does what is due up to `until_ns`; ends sooner when event_count is `last`, and where the network is to
 * stop. */
enum virtual_stop partition_run(struct partition *p, uint64_t until_ns, uint64_t last);
/* When a partition's next event is due; UINT64_MAX: never. */
uint64_t partition_next_ns(struct partition *p);

/* cut.c */
/* Partitions the network again, while no thread runs. False: out of memory. */
bool virtual_cut(struct virtual *v);
/* Whether a node's links have become shorter than the network's cut allows. */
bool virtual_is_nearer(const struct virtual *v, const struct node *node);
/* Whether partitions had so different numbers of events that another cut is better. */
bool virtual_is_uneven(const struct virtual *v);

/* threads.c */
/* False: memory or threads are short. */
bool threads_create(struct virtual *v);
void threads_destroy(struct virtual *v);
/* Brings partitions that are at different times, after VIRTUAL_PAUSED, to that of the last one: only then
 * may nodes go from one to another. VIRTUAL_REACHED: they are there. */
enum virtual_stop threads_meet(struct virtual *v, uint64_t max_events);
/* virtual_run() of a network that is cut; VIRTUAL_PAUSED, too, when another cut would be better. */
enum virtual_stop threads_run(struct virtual *v, uint64_t until_ns, uint64_t max_events);
/* source.c */
/* When a datagram or frame is due. */
uint64_t source_due_ns(const struct source *source, uint64_t number);
/* Sends what is due now; returns when it is due again. */
uint64_t source_wake(struct partition *p, uint32_t number);
/* Makes room for one more source, and for the trail of packets without: the first one's. False: no memory. */
bool sources_make_room(struct virtual *v);
void sources_free(struct virtual *v);

/* record.c */
/* A datagram has arrived at a flow's port: `payload` of `length` bytes. */
void flow_receive(struct partition *p, const struct listener *listener, uint8_t tos,
                  const uint8_t *payload, uint32_t length);
/* Hands what was noted to the flows, but for those that were removed since. False: no memory. */
bool receptions_sort(struct partition *p);
/* The same in all partitions. */
bool virtual_sort(struct virtual *v);
void receptions_free(struct partition *p);

/* What the headers of a UDP datagram say beside what is always the same. */
struct datagram {
    const struct host *from;
    const uint8_t *to_mac;
    uint32_t to_address; /* network byte order */
    uint16_t source_port, destination_port;
    uint8_t tos, ttl;
    uint32_t payload; /* bytes */
};
/* Writes HEADERS bytes, without the UDP checksum; returns its sum as far as it does not depend on the
 * payload. */
uint64_t datagram_head(uint8_t *head, const struct datagram *datagram);

/* application.c */
enum { MAX_INBOX = 1 << 30 /* bytes */ };
/* Something comes for an application now: `bytes`, and all else that the record says. */
void inbox_add(struct partition *p, uint32_t number, struct arrival_record record,
               const uint8_t *bytes);
void inboxes_free(struct virtual *v);

/* host.c */
/* False: no memory, or the port is taken. */
bool host_listen(struct host *host, const struct listener *listener);
void host_close(struct host *host, uint16_t port);
void host_receive(struct node *node, struct packet *packet);
void host_free(struct host *host);

/* tcp.c */
/* The end of a connection that an event of `timers` is for; NULL: the event is out of date. */
struct tcp *tcp_woken(const struct virtual *v, const struct event *event);
void tcp_wake(struct tcp *t);
/* The host of an end by its number; NULL: it was removed. */
struct node *tcp_host(const struct virtual *v, uint32_t number);
void connections_free(struct virtual *v);

/* tcp_input.c */
/* A segment, of an IP packet that is whole, comes to a host. */
void tcp_receive(struct node *node, const uint8_t *ip, const uint8_t *bytes, uint32_t length);

/* checksum.c */
/* The ones' complement sum of bytes that begin at an even offset (RFC 1071), added to `sum`. */
uint64_t checksum_add(uint64_t sum, const uint8_t *bytes, uint32_t length);
uint16_t checksum_fold(uint64_t sum);

#endif
