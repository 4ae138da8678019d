/* Sources of packets on hosts: flows of UDP datagrams, and unmodified frames. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "byte_order.h"
#include "virtual_internal.h"

_Static_assert(HEADERS + sizeof(struct flow_payload) <= HEAD, "HEAD contains all nonzero bytes");

uint64_t source_due_ns(const struct source *source, uint64_t number)
{
    uint64_t offset_ns = source->due_ns ? source->due_ns[number]
                                        : (uint64_t)((double)number * 1e9 / source->rate_pps);
    return source->start_ns + offset_ns;
}

static void send_frame(struct partition *p, struct source *source, struct packet *packet)
{
    source->host->host.counters.sent++;
    virtual_put_on_wire(source->host, 0, packet, p->now_ns);
}

/* Return the contribution of eight bytes to a checksum (RFC 1071). */
static uint64_t halves(uint64_t word)
{
    return (word & UINT32_MAX) + (word >> 32);
}

static void send_datagram(struct partition *p, uint32_t number)
{
    struct source *source = &p->v->source[number];
    struct packet *packet = packet_take(p->pool);
    if (!packet)
        return; /* out of packets; the pool has set is_short */
    packet->length = source->length;
    packet->source = number;
    if (source->length > HEAD)
        memset(packet->data + HEAD, 0, source->length - HEAD);
    memcpy(packet->data, source->head, HEAD);
    struct flow_payload *payload = (struct flow_payload *)(packet->data + HEADERS);
    uint64_t stamped[2] = {htobe64(source->next++), htobe64(p->now_ns)};
    payload->sequence = stamped[0];
    payload->sent_ns = stamped[1];
    uint16_t sum = checksum_fold(source->sum + halves(stamped[0]) + halves(stamped[1]));
    sum = sum ? sum : 0xffff; /* RFC 768: a checksum of zero means no checksum */
    memcpy(packet->data + HEADERS - 2, &sum, 2);
    send_frame(p, source, packet);
}

static void send_next_frame(struct partition *p, struct source *source)
{
    struct frames *frames = source->frames;
    uint32_t length = frames->length[source->next++];
    struct packet *packet = packet_take(p->pool);
    if (!packet)
        return;
    packet->length = length;
    memcpy(packet->data, frames->next_bytes, length);
    frames->next_bytes += length;
    send_frame(p, source, packet);
}

uint64_t source_wake(struct partition *p, uint32_t number)
{
    struct source *source = &p->v->source[number];
    if (source->next == source->count)
        return UINT64_MAX; /* the flow was removed */
    if (source->length)
        send_datagram(p, number);
    else
        send_next_frame(p, source);
    return source->next < source->count ? source_due_ns(source, source->next) : UINT64_MAX;
}

/* Allocate memory in a partition for more sources. The first trail belongs to packets without a
 * source. */
static bool partition_makes_room(struct partition *p, uint32_t old_room, uint32_t room)
{
    uint8_t *fetched = realloc(p->source_fetched, room);
    if (!fetched)
        return false;
    memset(fetched + old_room, 0, room - old_room);
    p->source_fetched = fetched;
    struct trail *trail = memory_resize(p->trail, old_room * sizeof *trail, room * sizeof *trail);
    if (trail)
        p->trail = trail;
    return trail != NULL;
}

bool sources_make_room(struct virtual *v)
{
    uint32_t room = v->source_room ? 2 * v->source_room : 16;
    if (v->sources < v->source_room)
        return true;
    struct flow **flow = realloc(v->flow, room * sizeof *flow);
    if (!flow)
        return false;
    v->flow = flow;
    struct source *source = memory_resize(v->source, v->source_room * sizeof *source,
                                          room * sizeof *source);
    if (!source)
        return false;
    v->source = source;
    for (uint32_t i = 0; i < v->partitions; i++)
        if (!partition_makes_room(v->partition[i], v->source_room, room))
            return false;
    v->source_room = room;
    return true;
}

/* Add a source to the network. Returns its number, or VIRTUAL_NONE if out of memory. */
static uint32_t add_source(struct virtual *v, const struct source *source, struct flow *flow)
{
    uint32_t number = v->sources;
    struct partition *p = source->host->partition;
    if (!sources_make_room(v))
        return VIRTUAL_NONE;
    if (source->count &&
        !events_add(&p->sends, (struct event){source_due_ns(source, 0), number, number}))
        return VIRTUAL_NONE;
    v->source[number] = *source;
    p->source_fetched[number] = 0;
    v->flow[number] = flow;
    v->sources++;
    return number;
}

static void free_frames(struct frames *frames)
{
    free(frames->time_ns);
    free(frames->length);
    free(frames->bytes);
    free(frames);
}

void sources_free(struct virtual *v)
{
    for (uint32_t i = 0; i < v->sources; i++) {
        if (v->flow[i])
            virtual_remove_flow(v, i);
        else if (v->source[i].frames)
            free_frames(v->source[i].frames);
    }
    free(v->flow);
}

/* --- flows ------------------------------------------------------------------------------------ */

uint64_t datagram_head(uint8_t *head, const struct datagram *datagram)
{
    uint16_t udp_length = (uint16_t)(8 + datagram->payload);
    memcpy(head, datagram->to_mac, 6);
    memcpy(head + 6, datagram->from->mac, 6);
    uint8_t ip[20] = {[0] = 0x45, [1] = datagram->tos, [6] = 0x40 /* flag "do not fragment" */,
                      [8] = datagram->ttl, [9] = 17};
    uint16_t word = htons(0x0800); /* IPv4 */
    memcpy(head + 12, &word, 2);
    word = htons((uint16_t)(20 + udp_length));
    memcpy(ip + 2, &word, 2);
    memcpy(ip + 12, &datagram->from->address, 4);
    memcpy(ip + 16, &datagram->to_address, 4);
    word = checksum_fold(checksum_add(0, ip, 20));
    memcpy(ip + 10, &word, 2);
    memcpy(head + 14, ip, 20);
    uint16_t udp[4] = {htons(datagram->source_port), htons(datagram->destination_port),
                       htons(udp_length), 0};
    memcpy(head + 34, udp, 8);
    return checksum_add(checksum_add(htons(17), ip + 12, 8) + htons(udp_length), head + 34, 8);
}

static struct source flow_source(struct virtual *v, const struct virtual_flow_config *config,
                                 const uint64_t *due)
{
    struct node *host = v->node[config->source];
    const struct host *to = &v->node[config->destination]->host;
    struct source source = {
        .count = config->count, .host = host, .start_ns = config->start_ns, .due_ns = due,
        .rate_pps = config->rate_pps, .length = HEADERS + config->payload,
    };
    const struct datagram datagram = {
        &host->host, to->mac, to->address, config->source_port, config->destination_port,
        config->tos, config->ttl, config->payload};
    uint16_t id = htons(config->id);
    source.sum = datagram_head(source.head, &datagram);
    memcpy(source.head + HEADERS, &id, 2);
    source.sum = checksum_add(source.sum, source.head + HEADERS, sizeof(struct flow_payload));
    return source;
}

static void free_flow(struct flow *flow)
{
    free((void *)flow->config.due_ns);
    free(flow->sent);
    free(flow->received);
    free(flow);
}

static struct flow *make_flow(const struct virtual_flow_config *config, uint64_t now_ns)
{
    struct flow *flow = calloc(1, sizeof *flow);
    if (!flow)
        return NULL;
    flow->config = *config;
    flow->added_ns = now_ns;
    if (!config->due_ns)
        return flow;
    uint64_t *due_ns = malloc(config->count * sizeof *due_ns);
    flow->config.due_ns = due_ns;
    if (due_ns)
        memcpy(due_ns, config->due_ns, config->count * sizeof *due_ns);
    else
        free_flow(flow);
    return due_ns ? flow : NULL;
}

uint32_t virtual_add_flow(struct virtual *v, const struct virtual_flow_config *config)
{
    struct host *to = &v->node[config->destination]->host;
    struct flow *flow = make_flow(config, v->now_ns);
    if (!flow)
        return VIRTUAL_NONE;
    struct listener listener = {
        .flow = v->sources + 1, .port = config->destination_port, .id = config->id,
        .payload = config->payload, .tos = config->tos};
    if (!host_listen(to, &listener)) {
        free_flow(flow);
        return VIRTUAL_NONE;
    }
    struct source source = flow_source(v, config, flow->config.due_ns);
    uint32_t number = add_source(v, &source, flow);
    if (number == VIRTUAL_NONE) {
        host_close(to, config->destination_port);
        free_flow(flow);
    }
    return number;
}

void virtual_remove_flow(struct virtual *v, uint32_t number)
{
    struct flow *flow = v->flow[number];
    host_close(&v->node[flow->config.destination]->host, flow->config.destination_port);
    v->source[number].next = v->source[number].count;
    v->source[number].frames = NULL;
    v->flow[number] = NULL;
    free_flow(flow);
}

/* --- unmodified frames ------------------------------------------------------------------------ */

static void *copy(const void *bytes, size_t size)
{
    void *made = malloc(size ? size : 1);
    if (made)
        memcpy(made, bytes, size);
    return made;
}

bool virtual_send_frames(struct virtual *v, uint32_t node, uint64_t count, const uint64_t *time_ns,
                         const uint32_t *length, const uint8_t *bytes)
{
    size_t size = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (length[i] > PACKET_MAX_FRAME)
            return false;
        size += length[i];
    }
    struct frames *frames = calloc(1, sizeof *frames);
    if (!frames)
        return false;
    frames->time_ns = copy(time_ns, count * sizeof *time_ns);
    frames->length = copy(length, count * sizeof *length);
    frames->bytes = frames->next_bytes = copy(bytes, size);
    struct source source = {
        .count = count, .host = v->node[node], .due_ns = frames->time_ns, .frames = frames};
    if (frames->time_ns && frames->length && frames->bytes &&
        add_source(v, &source, NULL) != VIRTUAL_NONE)
        return true;
    free_frames(frames);
    return false;
}
