/* The structures that the source files of the virtual network share. */
#ifndef MINIP4_VIRTUAL_INTERNAL_H
#define MINIP4_VIRTUAL_INTERNAL_H

#include "../capture.h"
#include "events.h"
#include "virtual.h"

struct node;

/* What is plugged in at one port of a node. */
struct wire {
    struct node *to; /* NULL: nothing */
    uint16_t to_port;
    struct capture *capture[3]; /* in, out, lost; or NULL */
};

struct fifo {
    struct packet *first, **end;
};

struct listener {
    uint16_t port;
    struct flow *flow;
};

struct host {
    uint8_t mac[6];
    uint32_t address; /* network byte order */
    struct virtual_host_counters counters;
    struct listener *listeners; /* a hash table by UDP port, at most half full */
    uint32_t listener_room, listener_count;
};

struct switching {
    struct engine *engine;
    struct virtual_calls calls;
    uint32_t element;
    uint16_t cpu_port;
    struct fifo to_cpu;
    bool wants_control;  /* is in the list of those that have something for the controller */
    struct node *next_control;
};

struct node {
    struct virtual *v;
    uint32_t number;
    bool is_host;
    uint16_t ports; /* room of `wire` */
    struct wire *wire;
    union {
        struct host host;
        struct switching switching;
    };
};

/* A frame on its way over a wire, which takes no time. */
struct arrival {
    struct packet *packet;
    struct node *to;
    uint16_t port;
};

struct source;

/* What an entry of the event queue stands for: a switch or a source of frames. */
struct element {
    struct node *node;
    struct source *source;
};

struct virtual {
    uint64_t now_ns, event_count;
    struct packet_pool *pool;
    struct events *events;
    struct element *element;
    uint32_t elements, element_room;
    struct node **node;
    uint32_t nodes, node_room;
    struct source **source; /* by number, NULL when it was removed */
    uint32_t sources, source_room;
    struct arrival *arrivals; /* a ring of a power of two */
    uint32_t arrival_first, arrival_count, arrival_room;
    struct node *first_control, **end_control;
    struct capture_set *captures;
};

/* virtual.c */

/* Makes room for one more item in an array that doubles; false: no memory. */
bool virtual_room(void *array, uint32_t count, uint32_t *room, size_t size);
uint32_t virtual_add_element(struct virtual *v, struct node *node, struct source *source);
/* Hands a frame to whatever is plugged in at a port; owns the packet. */
void virtual_put_on_wire(struct node *from, uint16_t port, struct packet *packet);

/* host.c */
void host_receive(struct node *node, struct packet *packet);
void host_free(struct host *host);

/* source.c */
/* Sends what is due now; returns when it is due again. */
uint64_t source_wake(struct source *source, uint64_t now_ns);
void source_free(struct source *source);
/* A datagram of the flow's has arrived: `payload` of `length` bytes. */
void flow_receive(struct flow *flow, uint64_t now_ns, uint8_t tos, const uint8_t *payload,
                  uint32_t length);
/* False: no memory, or the port is taken. */
bool host_listen(struct host *host, uint16_t port, struct flow *flow);
void host_close(struct host *host, uint16_t port);

/* checksum.c */
/* The ones' complement sum of bytes that begin at an even offset (RFC 1071), added to `sum`. */
uint64_t checksum_add(uint64_t sum, const uint8_t *bytes, uint32_t length);
uint16_t checksum_fold(uint64_t sum);

#endif
