/* TCP connections: creation and removal, and their timers. */
#include <stdlib.h>
#include <string.h>

#include "tcp.h"

enum { HEADERS_WITHOUT_OPTIONS = 20 + TCP_HEADER };

/* --- timers ----------------------------------------------------------------------------------- */

/* Queue the wake-up of an end (one of the two hosts' sides of a connection) for its next timer. */
static void queue(struct tcp *t)
{
    uint64_t due_ns = NEVER;
    for (int i = 0; i < TIMERS; i++)
        due_ns = t->due_ns[i] < due_ns ? t->due_ns[i] : due_ns;
    if (due_ns >= t->queued_ns)
        return; /* an earlier wake-up is queued */
    t->queued_ns = due_ns;
    if (!events_add(&t->host->partition->timers, (struct event){due_ns, t->number, t->number}))
        t->host->partition->is_short = true;
}

void tcp_set(struct tcp *t, enum tcp_timer timer, uint64_t due_ns)
{
    t->due_ns[timer] = due_ns;
    if (due_ns < t->queued_ns)
        queue(t);
}

static bool is_due(struct tcp *t, enum tcp_timer timer)
{
    if (t->due_ns[timer] > t->host->partition->now_ns)
        return false;
    t->due_ns[timer] = NEVER;
    return true;
}

void tcp_wake(struct tcp *t)
{
    t->queued_ns = NEVER;
    if (is_due(t, TIMER_ACK))
        tcp_send_ack(t);
    if (is_due(t, TIMER_REORDERING))
        tcp_on_reordering(t);
    if (is_due(t, TIMER_RETRANSMIT))
        tcp_on_timeout(t);
    else if (is_due(t, TIMER_PROBE))
        tcp_on_probe(t);
    if (is_due(t, TIMER_APPLICATION))
        tcp_application(t);
    queue(t);
}

/* Return the end that an event wakes, or NULL if the event is obsolete. */
struct tcp *tcp_woken(const struct virtual *v, const struct event *event)
{
    struct connection *connection = v->connection[event->what / 2];
    struct tcp *t = connection ? &connection->end[event->what % 2] : NULL;
    return t && t->queued_ns == event->time_ns ? t : NULL;
}

struct node *tcp_host(const struct virtual *v, uint32_t number)
{
    struct connection *connection = v->connection[number / 2];
    return connection ? connection->end[number % 2].host : NULL;
}

/* --- one end of a connection ---------------------------------------------------------------------- */

void tcp_fail(struct tcp *t)
{
    if (t->number % 2 == OPENS && !t->connection->result.is_acknowledged)
        t->connection->result.has_failed = true;
    t->state = TCP_CLOSED;
    for (int i = 0; i < TIMERS; i++)
        t->due_ns[i] = NEVER;
}

/* RFC 9293, 3.10.7.4: return to LISTEN, so that the end can receive another connection request. */
static void listen_again(struct tcp *t)
{
    struct segment *segment = t->out.segment;
    t->state = TCP_LISTEN;
    t->out = (struct sending){.segment = segment, .room = t->out.room, .own_mss = t->out.own_mss,
                              .limit = 1};
    t->repair = (struct repair){0};
    for (int i = 0; i < TIMERS; i++)
        t->due_ns[i] = NEVER;
}

void tcp_reset(struct tcp *t)
{
    if (t->state == TCP_SYN_RECEIVED && t->number % 2 == LISTENS) {
        listen_again(t);
        return;
    }
    tcp_fail(t);
    t->connection->result.was_reset = t->connection->result.has_failed;
}

/* --- hash table of ends by port --------------------------------------------------------------- */

static struct tcp **bucket_of(const struct virtual *v, uint32_t node, uint16_t port)
{
    uint32_t hash = (node * 0x9e3779b1u) ^ (port * 0x85ebca6bu);
    return &v->tcp_bucket[(hash ^ hash >> 15) & (v->tcp_buckets - 1)];
}

struct tcp *tcp_find(struct virtual *v, uint32_t node, uint16_t port, uint32_t address,
                     uint16_t peer_port)
{
    struct tcp *t = v->tcp_buckets ? *bucket_of(v, node, port) : NULL, *listens = NULL;
    for (; t; t = t->next) {
        if (t->host->number != node || t->port != port)
            continue;
        if (t->peer_address == address && t->peer_port == peer_port)
            return t;
        /* A listening end is found even if the path translates its address. */
        if (t->state == TCP_LISTEN)
            listens = t;
    }
    return listens;
}

static void add_to_bucket(struct tcp *t)
{
    struct tcp **bucket = bucket_of(t->host->partition->v, t->host->number, t->port);
    t->next = *bucket;
    *bucket = t;
}

static void remove_from_bucket(struct tcp *t)
{
    struct tcp **at = bucket_of(t->host->partition->v, t->host->number, t->port);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
}

/* Allocate at least as many hash buckets as there are ends. Returns false if out of memory. */
static bool make_buckets(struct virtual *v)
{
    if (2 * (v->connections + 1) <= v->tcp_buckets)
        return true;
    uint32_t buckets = v->tcp_buckets ? 4 * v->tcp_buckets : 64;
    struct tcp **made = calloc(buckets, sizeof *made);
    if (!made)
        return false;
    free(v->tcp_bucket);
    v->tcp_bucket = made;
    v->tcp_buckets = buckets;
    for (uint32_t i = 0; i < v->connections; i++)
        for (int end = 0; v->connection[i] && end < 2; end++)
            add_to_bucket(&v->connection[i]->end[end]);
    return true;
}

/* --- connections ------------------------------------------------------------------------------ */

static void begin_end(struct virtual *v, struct connection *connection, int which)
{
    const struct virtual_tcp_config *config = &connection->config;
    bool opens = which == OPENS;
    struct tcp *t = &connection->end[which];
    const struct host *peer = &v->node[opens ? config->destination : config->source]->host;
    t->connection = connection;
    t->host = v->node[opens ? config->source : config->destination];
    t->number = 2 * v->connections + (uint32_t)which;
    t->peer_address = peer->address;
    t->peer_mac = peer->mac;
    t->port = opens ? config->source_port : config->destination_port;
    t->peer_port = opens ? config->destination_port : config->source_port;
    t->tos = config->tos;
    t->has_ecn = config->has_ecn;
    t->has_timestamps = t->has_sack = t->has_scale = true;
    t->state = opens ? TCP_CLOSED : TCP_LISTEN;
    t->isn = config->isn[which];
    t->rto_ns = FIRST_RTO_NS;
    t->queued_ns = NEVER;
    for (int i = 0; i < TIMERS; i++)
        t->due_ns[i] = NEVER;
    t->out.own_mss = t->host->host.longest_frame - ETHERNET_AND_TAG - HEADERS_WITHOUT_OPTIONS;
    t->out.limit = 1;
    t->congestion.kind = config->congestion;
}

uint32_t virtual_add_tcp(struct virtual *v, const struct virtual_tcp_config *config)
{
    if (tcp_find(v, config->source, config->source_port,
                 v->node[config->destination]->host.address, config->destination_port) ||
        !virtual_room(&v->connection, v->connections, &v->connection_room,
                      sizeof *v->connection) ||
        !make_buckets(v))
        return VIRTUAL_NONE;
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return VIRTUAL_NONE;
    connection->config = *config;
    for (int end = 0; end < 2; end++) {
        begin_end(v, connection, end);
        add_to_bucket(&connection->end[end]);
    }
    v->connection[v->connections] = connection;
    tcp_set(&connection->end[OPENS], TIMER_APPLICATION, config->start_ns);
    return v->connections++;
}

bool virtual_tcp_result(struct virtual *v, uint32_t number, struct virtual_tcp_result *out)
{
    struct connection *connection = v->connection[number];
    if (virtual_is_short(v))
        return false;
    *out = connection->result;
    out->retransmitted = connection->end[OPENS].retransmitted;
    out->progress = connection->progress;
    out->received = connection->received;
    out->answers = connection->answers;
    return true;
}

void virtual_remove_tcp(struct virtual *v, uint32_t number)
{
    struct connection *connection = v->connection[number];
    for (int end = 0; end < 2; end++) {
        remove_from_bucket(&connection->end[end]);
        free(connection->end[end].out.segment);
        free(connection->end[end].in.range);
    }
    free(connection->progress);
    free(connection->received);
    free(connection->answers);
    free(connection);
    v->connection[number] = NULL;
}

void connections_free(struct virtual *v)
{
    for (uint32_t i = 0; i < v->connections; i++)
        if (v->connection[i])
            virtual_remove_tcp(v, i);
    free(v->connection);
    free(v->tcp_bucket);
}
