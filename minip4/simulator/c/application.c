/* Python applications on hosts. Received packets wait in inboxes; sent packets leave
 * immediately. */
#include <stdlib.h>
#include <string.h>

#include "virtual_internal.h"

struct inbox {
    struct arrival_record *records;
    uint8_t *bytes; /* bytes of all packets, concatenated */
    uint32_t count, room;
    uint32_t size, bytes_room;
    uint32_t number;
    struct inbox *next; /* next inbox in the list of inboxes that became nonempty */
};

/* Return a capacity of at least `wanted`: `room`, doubled as often as necessary. */
static uint32_t enough(uint32_t room, uint32_t wanted)
{
    room = room ? room : 64;
    while (room < wanted)
        room *= 2;
    return room;
}

static bool make_room(struct inbox *inbox, uint32_t length)
{
    if (inbox->count == inbox->room) {
        uint32_t room = enough(inbox->room, inbox->count + 1);
        struct arrival_record *grown = realloc(inbox->records, room * sizeof *grown);
        if (!grown)
            return false;
        inbox->records = grown;
        inbox->room = room;
    }
    if (length > MAX_INBOX - inbox->size)
        return false;
    if (inbox->size + length > inbox->bytes_room) {
        uint32_t room = enough(inbox->bytes_room, inbox->size + length);
        uint8_t *grown = realloc(inbox->bytes, room);
        if (!grown)
            return false;
        inbox->bytes = grown;
        inbox->bytes_room = room;
    }
    return true;
}

void inbox_add(struct partition *p, uint32_t number, struct arrival_record record,
               const uint8_t *bytes)
{
    struct inbox *inbox = p->v->inbox[number];
    if (!make_room(inbox, record.length)) {
        p->is_short = true;
        return;
    }
    if (!inbox->count) {
        inbox->next = NULL;
        *p->end_inbox = inbox;
        p->end_inbox = &inbox->next;
    }
    record.time_ns = p->now_ns;
    inbox->records[inbox->count++] = record;
    if (record.length) /* without data, `bytes` may be NULL */
        memcpy(inbox->bytes + inbox->size, bytes, record.length);
    inbox->size += record.length;
}

void inboxes_free(struct virtual *v)
{
    for (uint32_t i = 0; i < v->inboxes; i++) {
        free(v->inbox[i]->records);
        free(v->inbox[i]->bytes);
        free(v->inbox[i]);
    }
    free(v->inbox);
}

/* Create an inbox. Returns NULL if out of memory. The inbox is permanent as soon as v->inboxes
 * counts it. */
static struct inbox *make_inbox(struct virtual *v)
{
    if (!virtual_room(&v->inbox, v->inboxes, &v->inbox_room, sizeof(struct inbox *)))
        return NULL;
    struct inbox *inbox = calloc(1, sizeof *inbox);
    if (inbox)
        inbox->number = v->inboxes;
    return inbox;
}

uint32_t virtual_open_udp(struct virtual *v, uint32_t node, uint16_t port)
{
    struct inbox *inbox = make_inbox(v);
    struct listener listener = {.flow = v->inboxes + 1, .port = port, .is_application = true};
    if (!inbox || !host_listen(&v->node[node]->host, &listener)) {
        free(inbox);
        return VIRTUAL_NONE;
    }
    v->inbox[v->inboxes] = inbox;
    v->node[node]->host.has_application = v->is_stale = true;
    return v->inboxes++;
}

/* Open an inbox of a host. If *place is 0, the host has no such inbox yet; it is set to the inbox's
 * number plus 1. */
static uint32_t open_only(struct virtual *v, struct host *host, uint32_t *place)
{
    struct inbox *inbox = *place ? NULL : make_inbox(v);
    if (!inbox)
        return VIRTUAL_NONE;
    v->inbox[v->inboxes] = inbox;
    *place = ++v->inboxes;
    host->has_application = v->is_stale = true;
    return *place - 1;
}

uint32_t virtual_open_icmp(struct virtual *v, uint32_t node)
{
    struct host *host = &v->node[node]->host;
    return open_only(v, host, &host->icmp);
}

uint32_t virtual_open_frames(struct virtual *v, uint32_t node)
{
    struct host *host = &v->node[node]->host;
    return open_only(v, host, &host->frames);
}

uint32_t virtual_inbox_next(struct virtual *v)
{
    /* the partition of all nodes that may stop the network */
    struct partition *p = v->partition[0];
    struct inbox *inbox = p->first_inbox;
    if (!inbox)
        return VIRTUAL_NONE;
    p->first_inbox = inbox->next;
    if (!p->first_inbox)
        p->end_inbox = &p->first_inbox;
    return inbox->number;
}

uint32_t virtual_inbox_take(struct virtual *v, uint32_t number,
                            const struct arrival_record **records, const uint8_t **bytes)
{
    struct inbox *inbox = v->inbox[number];
    uint32_t count = inbox->count;
    *records = inbox->records;
    *bytes = inbox->bytes;
    inbox->count = inbox->size = 0;
    return count;
}

/* --- sending ---------------------------------------------------------------------------------- */

bool virtual_send_frame(struct virtual *v, uint32_t node, const uint8_t *frame, uint32_t length)
{
    struct node *host = v->node[node];
    struct partition *p = host->partition;
    struct packet *packet = length <= PACKET_MAX_FRAME ? packet_take(p->pool) : NULL;
    if (!packet)
        return false;
    packet->length = length;
    memcpy(packet->data, frame, length);
    host->host.counters.sent++;
    virtual_put_on_wire(host, 0, packet, p->now_ns);
    return true;
}

bool virtual_send_datagram(struct virtual *v, uint32_t node, const uint8_t mac[6], uint32_t address,
                           uint16_t source_port, uint16_t port, uint8_t tos, uint8_t ttl,
                           const uint8_t *payload, uint32_t length)
{
    uint8_t frame[PACKET_MAX_FRAME];
    if (length > sizeof frame - HEADERS)
        return false;
    const struct datagram datagram = {&v->node[node]->host, mac, address, source_port, port, tos,
                                      ttl, length};
    uint64_t sum = datagram_head(frame, &datagram);
    memcpy(frame + HEADERS, payload, length);
    uint16_t folded = checksum_fold(checksum_add(sum, payload, length));
    folded = folded ? folded : 0xffff; /* RFC 768: a checksum of zero means no checksum */
    memcpy(frame + HEADERS - 2, &folded, 2);
    return virtual_send_frame(v, node, frame, HEADERS + length);
}
