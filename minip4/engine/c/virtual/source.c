/* Sources: what hosts send by themselves. Flows of UDP datagrams with records of what was sent and
 * received, and frames as they are. */
#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "virtual_internal.h"

enum { HEADERS = 14 + 20 + 8, FIRST_RECORDS = 256 };

/* The first bytes of each datagram, in network byte order; zeros follow. */
struct flow_payload {
    uint16_t flow;
    uint64_t sequence;
    uint64_t sent_ns;
} __attribute__((packed));

struct flow {
    struct virtual_flow_config config;
    uint64_t *due_ns;      /* offsets, or NULL: steady rate */
    uint8_t *frame;        /* of `length` bytes; all but sequence, time and UDP checksum */
    uint64_t sum;          /* of the UDP checksum, without sequence and time */
    struct virtual_sent *sent;
    struct virtual_received *received;
    uint64_t received_room;
    struct virtual_flow_result result;
};

struct frames {
    uint64_t count;
    uint64_t *time_ns;
    uint32_t *length;
    uint8_t *bytes, *next_bytes;
};

struct source {
    struct virtual *v;
    struct node *node; /* the host */
    uint32_t element;
    uint64_t next;     /* number of the datagram or frame that comes next */
    bool is_flow;
    union {
        struct flow flow;
        struct frames frames;
    };
};

static void send_frame(struct source *source, const uint8_t *frame, uint32_t length,
                       struct packet *packet)
{
    memcpy(packet->data, frame, length);
    packet->length = length;
    source->node->host.counters.sent++;
    virtual_put_on_wire(source->node, 0, packet);
}

static uint64_t flow_due(const struct flow *flow, uint64_t sequence)
{
    uint64_t offset_ns = flow->due_ns ? flow->due_ns[sequence]
                                      : (uint64_t)((double)sequence * 1e9 / flow->config.rate_pps);
    return flow->config.start_ns + offset_ns;
}

static void send_datagram(struct source *source, uint64_t now_ns)
{
    struct flow *flow = &source->flow;
    uint32_t length = HEADERS + flow->config.payload;
    uint64_t sequence = source->next++;
    struct flow_payload *payload = (struct flow_payload *)(flow->frame + HEADERS);
    payload->sequence = htobe64(sequence);
    payload->sent_ns = htobe64(now_ns);
    uint16_t sum = checksum_fold(checksum_add(flow->sum, (uint8_t *)&payload->sequence, 16));
    sum = sum ? sum : 0xffff; /* RFC 768: zero would mean that there is none */
    memcpy(flow->frame + HEADERS - 2, &sum, 2);
    flow->sent[flow->result.sent_count++] = (struct virtual_sent){sequence, now_ns};
    struct packet *packet = packet_take(source->v->pool);
    if (packet)
        send_frame(source, flow->frame, length, packet);
    else
        flow->result.memory_drops++;
}

static void send_next_frame(struct source *source)
{
    struct frames *frames = &source->frames;
    uint32_t length = frames->length[source->next++];
    struct packet *packet = packet_take(source->v->pool);
    if (packet)
        send_frame(source, frames->next_bytes, length, packet);
    frames->next_bytes += length;
}

static uint64_t next_due(const struct source *source)
{
    if (source->is_flow)
        return source->next < source->flow.config.count ? flow_due(&source->flow, source->next)
                                                        : UINT64_MAX;
    return source->next < source->frames.count ? source->frames.time_ns[source->next] : UINT64_MAX;
}

uint64_t source_wake(struct source *source, uint64_t now_ns)
{
    if (source->is_flow)
        send_datagram(source, now_ns);
    else
        send_next_frame(source);
    return next_due(source);
}

void source_free(struct source *source)
{
    if (!source)
        return;
    if (source->is_flow) {
        free(source->flow.due_ns);
        free(source->flow.frame);
        free(source->flow.sent);
        free(source->flow.received);
    } else {
        free(source->frames.time_ns);
        free(source->frames.length);
        free(source->frames.bytes);
    }
    free(source);
}

/* Puts a source that is made into the network; frees it and returns VIRTUAL_NONE without memory. */
static uint32_t add_source(struct virtual *v, struct source *source)
{
    source->element = VIRTUAL_NONE;
    if (virtual_room(&v->source, v->sources, &v->source_room, sizeof(struct source *)))
        source->element = virtual_add_element(v, NULL, source);
    if (source->element == VIRTUAL_NONE) {
        source_free(source);
        return VIRTUAL_NONE;
    }
    v->source[v->sources] = source;
    events_set(v->events, source->element, next_due(source));
    return v->sources++;
}

/* --- flows ------------------------------------------------------------------------------------ */

static bool make_frame(struct flow *flow, const struct host *from, const struct host *to)
{
    const struct virtual_flow_config *config = &flow->config;
    uint16_t udp_length = (uint16_t)(8 + config->payload);
    uint8_t *frame = calloc(1, HEADERS + config->payload);
    if (!frame)
        return false;
    flow->frame = frame;
    memcpy(frame, to->mac, 6);
    memcpy(frame + 6, from->mac, 6);
    uint8_t ip[20] = {[0] = 0x45, [1] = config->tos, [6] = 0x40 /* do not fragment */,
                      [8] = 64, [9] = 17};
    uint16_t word = htons((uint16_t)(20 + udp_length));
    memcpy(ip + 2, &word, 2);
    memcpy(ip + 12, &from->address, 4);
    memcpy(ip + 16, &to->address, 4);
    word = checksum_fold(checksum_add(0, ip, 20));
    memcpy(ip + 10, &word, 2);
    frame[12] = 8; /* 0x0800, IPv4 */
    memcpy(frame + 14, ip, 20);
    uint16_t udp[4] = {htons(config->source_port), htons(config->destination_port),
                       htons(udp_length), 0};
    memcpy(frame + 34, udp, 8);
    word = htons(config->id);
    memcpy(frame + HEADERS, &word, 2);
    flow->sum = checksum_add(htons(17), ip + 12, 8) + htons(udp_length);
    flow->sum = checksum_add(flow->sum, frame + 34, 8 + config->payload);
    return true;
}

uint32_t virtual_add_flow(struct virtual *v, const struct virtual_flow_config *config)
{
    struct source *source = calloc(1, sizeof *source);
    if (!source)
        return VIRTUAL_NONE;
    struct flow *flow = &source->flow;
    struct host *from = &v->node[config->source]->host, *to = &v->node[config->destination]->host;
    source->v = v;
    source->node = v->node[config->source];
    source->is_flow = true;
    flow->config = *config;
    flow->sent = malloc(config->count * sizeof *flow->sent);
    if (config->due_ns) {
        flow->due_ns = malloc(config->count * sizeof *flow->due_ns);
        if (flow->due_ns)
            memcpy(flow->due_ns, config->due_ns, config->count * sizeof *flow->due_ns);
    }
    if (!flow->sent || (config->due_ns && !flow->due_ns) || !make_frame(flow, from, to) ||
        !host_listen(to, config->destination_port, flow)) {
        source_free(source);
        return VIRTUAL_NONE;
    }
    uint32_t number = add_source(v, source);
    if (number == VIRTUAL_NONE)
        host_close(to, config->destination_port);
    return number;
}

void flow_receive(struct flow *flow, uint64_t now_ns, uint8_t tos, const uint8_t *bytes,
                  uint32_t length)
{
    const struct flow_payload *payload = (const struct flow_payload *)bytes;
    struct virtual_flow_result *result = &flow->result;
    if (length != flow->config.payload || be16toh(payload->flow) != flow->config.id) {
        result->foreign++;
        return;
    }
    if (result->received_count == flow->received_room) {
        uint64_t room = flow->received_room ? 2 * flow->received_room : FIRST_RECORDS;
        struct virtual_received *grown = realloc(flow->received, room * sizeof *grown);
        if (!grown) {
            result->memory_drops++;
            return;
        }
        flow->received = grown;
        flow->received_room = room;
    }
    flow->received[result->received_count++] = (struct virtual_received){
        be64toh(payload->sequence), be64toh(payload->sent_ns), now_ns};
    result->dscp_changed += tos >> 2 != flow->config.tos >> 2;
}

void virtual_flow_result(struct virtual *v, uint32_t number, struct virtual_flow_result *out)
{
    const struct flow *flow = &v->source[number]->flow;
    *out = flow->result;
    out->sent = flow->sent;
    out->received = flow->received;
}

void virtual_remove_flow(struct virtual *v, uint32_t number)
{
    struct source *source = v->source[number];
    const struct virtual_flow_config *config = &source->flow.config;
    host_close(&v->node[config->destination]->host, config->destination_port);
    events_set(v->events, source->element, UINT64_MAX);
    source_free(source);
    v->source[number] = NULL;
}

/* --- frames as they are ----------------------------------------------------------------------- */

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
    struct source *source = calloc(1, sizeof *source);
    if (!source)
        return false;
    struct frames *frames = &source->frames;
    source->v = v;
    source->node = v->node[node];
    frames->count = count;
    frames->time_ns = copy(time_ns, count * sizeof *time_ns);
    frames->length = copy(length, count * sizeof *length);
    frames->bytes = frames->next_bytes = copy(bytes, size);
    if (!frames->time_ns || !frames->length || !frames->bytes) {
        source_free(source);
        return false;
    }
    return add_source(v, source) != VIRTUAL_NONE;
}
