/* Responses to the sender of a request: ACK, NAK and ATOMIC ACKNOWLEDGE. */
#include "numbers.h"
#include "nic_internal.h"

enum {
    AETH = 4, ATOMIC_ACK = 8,
    HOPS = 64, DO_NOT_FRAGMENT = 0x4000, NEXT_UDP = 17, NEXT_BTH = 0x1b,
    /* ANY_PORT is the smallest source port; the source port identifies the flow (A17.2.2) */
    PORT = 4791, ANY_PORT = 0xc000,
    MIGRATED = 0x40, DEFAULT_PARTITION = 0xffff
};

static uint8_t *write_udp(const struct queue_pair *pair, uint32_t length, uint8_t *at)
{
    put16(at, ANY_PORT | (pair->qpn & 0x3fff));
    put16(at + 2, PORT);
    put16(at + 4, UDP + length);
    put16(at + 6, 0);
    return at + UDP;
}

static uint8_t *write_ipv4(const struct queue_pair *pair, uint32_t length, uint8_t *at)
{
    memset(at, 0, IPV4);
    at[0] = 0x45;
    put16(at + 2, IPV4 + UDP + length);
    put16(at + 6, DO_NOT_FRAGMENT);
    at[8] = HOPS;
    at[9] = NEXT_UDP;
    memcpy(at + 12, pair->with.own.bytes + 12, 4);
    memcpy(at + 16, pair->with.peer.bytes + 12, 4);
    put16(at + 10, (uint16_t)~ip_checksum(at));
    return write_udp(pair, length, at + IPV4);
}

static uint8_t *write_ipv6(const struct queue_pair *pair, uint32_t length, uint8_t next, uint8_t *at)
{
    memset(at, 0, 4);
    at[0] = 0x60;
    put16(at + 4, (next == NEXT_UDP ? UDP : 0) + length);
    at[6] = next;
    at[7] = HOPS;
    memcpy(at + 8, pair->with.own.bytes, 16);
    memcpy(at + 24, pair->with.peer.bytes, 16);
    return next == NEXT_UDP ? write_udp(pair, length, at + IPV6) : at + IPV6;
}

/* Writes the addresses of the queue pair. The Ethernet addresses are taken from the request. */
static uint8_t *write_network(const struct queue_pair *pair, const struct packet *to,
                              uint32_t length, uint8_t *reply)
{
    uint8_t *at = reply + ETHERNET;

    memcpy(reply, to->frame + 6, 6);
    memcpy(reply + 6, to->frame, 6);
    put16(reply + 12, to->ethertype);
    if (to->bth - to->frame == ETHERNET + IPV4 + UDP)
        return write_ipv4(pair, length, at);
    return write_ipv6(pair, length, to->bth - to->frame == ETHERNET + GRH ? NEXT_BTH : NEXT_UDP, at);
}

void write_answer(const struct queue_pair *pair, const struct packet *to, struct answer answer,
                  struct roce_reply *reply)
{
    bool is_atomic = answer.opcode == ATOMIC_ACKNOWLEDGE;
    uint32_t length = BTH + AETH + (is_atomic ? ATOMIC_ACK : 0) + ICRC, right;
    uint8_t *bth = write_network(pair, to, length, reply->frame), *end = bth + length - ICRC;

    memset(bth, 0, BTH);
    bth[0] = answer.opcode;
    bth[1] = MIGRATED;
    put16(bth + 2, DEFAULT_PARTITION);
    put24(bth + 5, pair->with.peer_qpn);
    put24(bth + 9, answer.psn);
    bth[BTH] = answer.syndrome;
    put24(bth + BTH + 1, pair->msn);
    if (is_atomic)
        put64(bth + BTH + AETH, answer.before);
    right = icrc(reply->frame + ETHERNET, bth, end);
    memcpy(end, &right, sizeof right);
    reply->length = (uint16_t)(end + ICRC - reply->frame);
}
