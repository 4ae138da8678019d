/* Hosts. Hosts respond to ARP and ICMP echo requests, pass UDP datagrams to flows and applications,
 * and pass TCP segments to connections. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "virtual_internal.h"

enum {
    ETHERNET = 14, /* lengths of headers in bytes */
    ARP = 28,
    IPV4 = 20,
    UDP = 8,
    ICMP = 8,
    TYPE_IPV4 = 0x0800,
    TYPE_ARP = 0x0806,
    ARP_REQUEST = 1,
    ARP_REPLY = 2,
    PROTOCOL_ICMP = 1,
    PROTOCOL_TCP = 6,
    PROTOCOL_UDP = 17,
    ECHO_REPLY = 0,
    ECHO_REQUEST = 8,
    FRAGMENT = 0x3fff /* mask of the fragment offset and of "more fragments" */
};

static uint16_t get_16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void put_16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* --- UDP ports -------------------------------------------------------------------------------- */

/* Return the slot of a port, or the free slot where the port belongs. */
static struct listener *slot_of(struct host *host, uint16_t port)
{
    uint32_t mask = host->listener_room - 1;
    for (uint32_t i = port;; i++) {
        struct listener *slot = &host->listeners[i & mask];
        if (!slot->flow || slot->port == port)
            return slot;
    }
}

static bool grow_listeners(struct host *host, uint32_t room)
{
    struct listener *old = host->listeners, *grown = memory_take(room * sizeof *grown);
    if (!grown)
        return false;
    uint32_t old_room = host->listener_room;
    host->listeners = grown;
    host->listener_room = room;
    for (uint32_t i = 0; i < old_room; i++)
        if (old[i].flow)
            *slot_of(host, old[i].port) = old[i];
    memory_give(old, old_room * sizeof *old);
    return true;
}

bool host_listen(struct host *host, const struct listener *listener)
{
    if (2 * (host->listener_count + 1) > host->listener_room &&
        !grow_listeners(host, host->listener_room ? 2 * host->listener_room : 8))
        return false;
    struct listener *slot = slot_of(host, listener->port);
    if (slot->flow)
        return false;
    *slot = *listener;
    host->listener_count++;
    return true;
}

void host_close(struct host *host, uint16_t port)
{
    uint32_t mask = host->listener_room - 1;
    struct listener *slot = slot_of(host, port);
    slot->flow = 0;
    host->listener_count--;
    /* After the removal, a search would end at the gap. So move each entry after the gap to a slot
     * where a search finds it. */
    for (uint32_t i = (uint32_t)(slot - host->listeners) + 1; host->listeners[i & mask].flow; i++) {
        struct listener moved = host->listeners[i & mask];
        host->listeners[i & mask].flow = 0;
        *slot_of(host, moved.port) = moved;
    }
}

void host_free(struct host *host)
{
    memory_give(host->listeners, host->listener_room * sizeof *host->listeners);
    free(host->malformed);
}

/* --- received packets ------------------------------------------------------------------------- */

static void reply(struct node *node, struct packet *packet, const uint8_t *to_mac)
{
    memmove(packet->data, to_mac, 6);
    memcpy(packet->data + 6, node->host.mac, 6);
    node->host.counters.sent++;
    virtual_put_on_wire(node, 0, packet, node->partition->now_ns);
}

/* Process an ARP packet (RFC 826, Ethernet and IPv4). Returns true if the packet was changed to a
 * reply. */
static bool receive_arp(struct node *node, struct packet *packet)
{
    static const uint8_t expected[6] = {0, 1, 8, 0, 6, 4};
    struct host *host = &node->host;
    uint8_t *arp = packet->data + ETHERNET;
    if (packet->length < ETHERNET + ARP || memcmp(arp, expected, sizeof expected) != 0) {
        host->counters.header_errors++;
        return false;
    }
    if (get_16(arp + 6) != ARP_REQUEST || memcmp(arp + 24, &host->address, 4) != 0) {
        host->counters.unclaimed++;
        return false;
    }
    put_16(arp + 6, ARP_REPLY);
    memcpy(arp + 18, arp + 8, 10); /* the sender becomes the target */
    memcpy(arp + 8, host->mac, 6);
    memcpy(arp + 14, &host->address, 4);
    reply(node, packet, arp + 18);
    return true;
}

/* Process an ICMP packet (RFC 792). Returns true if the packet was changed to a reply. */
static bool receive_icmp(struct node *node, struct packet *packet, uint8_t *ip, uint32_t header,
                         uint32_t length)
{
    struct host *host = &node->host;
    uint8_t *icmp = ip + header;
    if (length < ICMP || checksum_fold(checksum_add(0, icmp, length)) != 0) {
        host->counters.checksum_errors++;
        return false;
    }
    if (icmp[0] != ECHO_REQUEST) {
        struct arrival_record record = {.length = length, .tos = ip[1], .ttl = ip[8]};
        memcpy(&record.address, ip + 12, 4);
        if (host->icmp)
            inbox_add(node->partition, host->icmp - 1, record, icmp);
        else
            host->counters.unclaimed++;
        return false;
    }
    icmp[0] = ECHO_REPLY;
    memset(icmp + 2, 0, 2);
    uint16_t sum = checksum_fold(checksum_add(0, icmp, length));
    memcpy(icmp + 2, &sum, 2);
    memcpy(ip + 16, ip + 12, 4);
    memcpy(ip + 12, &host->address, 4);
    ip[8] = 64;
    memset(ip + 10, 0, 2);
    sum = checksum_fold(checksum_add(0, ip, header));
    memcpy(ip + 10, &sum, 2);
    reply(node, packet, packet->data + 6);
    return true;
}

static void receive_udp(struct node *node, const uint8_t *ip, const uint8_t *udp, uint32_t room)
{
    struct host *host = &node->host;
    uint32_t length = room >= UDP ? get_16(udp + 4) : 0;
    if (length < UDP || length > room) {
        host->counters.checksum_errors++;
        return;
    }
    uint64_t pseudo = checksum_add(htons(PROTOCOL_UDP), ip + 12, 8) + htons((uint16_t)length);
    if (get_16(udp + 6) && checksum_fold(checksum_add(pseudo, udp, length)) != 0) {
        host->counters.checksum_errors++;
        return;
    }
    struct listener *slot = host->listener_room ? slot_of(host, get_16(udp + 2)) : NULL;
    if (!slot || !slot->flow) {
        host->counters.unclaimed++;
        return;
    }
    if (slot->is_application) {
        struct arrival_record record = {.length = length - UDP, .tos = ip[1], .ttl = ip[8]};
        memcpy(&record.address, ip + 12, 4);
        memcpy(&record.port, udp, 2);
        inbox_add(node->partition, slot->flow - 1, record, udp + UDP);
    } else {
        flow_receive(node->partition, slot, ip[1], udp + UDP, length - UDP);
    }
}

/* Process an IPv4 packet (RFC 791); fragments and forwarding are not supported. Returns true if the
 * packet was changed to a reply. */
static bool receive_ipv4(struct node *node, struct packet *packet)
{
    struct host *host = &node->host;
    uint8_t *ip = packet->data + ETHERNET;
    uint32_t room = packet->length - ETHERNET;
    uint32_t header = room >= IPV4 ? (ip[0] & 15u) * 4 : 0;
    uint32_t total = room >= IPV4 ? get_16(ip + 2) : 0;
    if (header < IPV4 || ip[0] >> 4 != 4 || header > total || total > room ||
        checksum_fold(checksum_add(0, ip, header)) != 0) {
        host->counters.header_errors++;
        return false;
    }
    if (memcmp(ip + 16, &host->address, 4) != 0) {
        host->counters.other_addresses++;
        return false;
    }
    if (get_16(ip + 6) & FRAGMENT) {
        host->counters.unclaimed++;
        return false;
    }
    if (ip[9] == PROTOCOL_UDP) {
        receive_udp(node, ip, ip + header, total - header);
        return false;
    }
    if (ip[9] == PROTOCOL_TCP) {
        tcp_receive(node, ip, ip + header, total - header);
        return false;
    }
    if (ip[9] == PROTOCOL_ICMP)
        return receive_icmp(node, packet, ip, header, total - header);
    host->counters.unclaimed++;
    return false;
}

static uint64_t malformed_frames(const struct host *host)
{
    return host->counters.header_errors + host->counters.checksum_errors;
}

/* Store the first malformed frame for the report of the run, if there is memory. */
static void keep_malformed(struct host *host, const struct packet *packet, uint64_t now_ns)
{
    if (host->malformed || !(host->malformed = malloc(packet->length)))
        return;
    memcpy(host->malformed, packet->data, packet->length);
    host->malformed_length = packet->length;
    host->malformed_ns = now_ns;
}

void host_receive(struct node *node, struct packet *packet)
{
    static const uint8_t broadcast[6] = {255, 255, 255, 255, 255, 255};
    struct host *host = &node->host;
    bool is_answer = false;
    /* a real interface drops such a frame, too */
    if (packet->length > host->longest_frame) {
        host->counters.too_long++;
        packet_give(node->partition->pool, packet);
        return;
    }
    host->counters.received++;
    uint64_t malformed_before = malformed_frames(host);
    if (host->frames)
        inbox_add(node->partition, host->frames - 1, (struct arrival_record){.length = packet->length},
                  packet->data);
    else if (packet->length < ETHERNET)
        host->counters.header_errors++;
    else if (memcmp(packet->data, host->mac, 6) && memcmp(packet->data, broadcast, 6))
        host->counters.other_addresses++;
    else if (get_16(packet->data + 12) == TYPE_IPV4)
        is_answer = receive_ipv4(node, packet);
    else if (get_16(packet->data + 12) == TYPE_ARP)
        is_answer = receive_arp(node, packet);
    else
        host->counters.unclaimed++;
    if (malformed_frames(host) != malformed_before)
        keep_malformed(host, packet, node->partition->now_ns);
    if (!is_answer)
        packet_give(node->partition->pool, packet);
}

void virtual_host_counters(struct virtual *v, uint32_t node, struct virtual_host_counters *out)
{
    *out = v->node[node]->host.counters;
}

uint32_t virtual_first_malformed(const struct virtual *v, uint32_t node, uint64_t *time_ns,
                                 uint8_t *room)
{
    const struct host *host = &v->node[node]->host;
    if (!host->malformed)
        return 0;
    *time_ns = host->malformed_ns;
    memcpy(room, host->malformed, host->malformed_length);
    return host->malformed_length;
}
