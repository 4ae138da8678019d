/* Parser of frames: RoCEv1, and RoCEv2 over IPv4 and IPv6. The result is a packet whose iCRC is
 * valid. */
#include "numbers.h"
#include "crc.h"
#include "nic_internal.h"

enum {
    ROCE_V1 = 0x8915, TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd, /* Ethernet types */
    NEXT_UDP = 17, NEXT_BTH = 0x1b,
    PORT = 4791,
    RETH = 16, IMMEDIATE = 4, ATOMIC_ETH = 28, DETH = 8
};

const struct operation operations[OPERATIONS] = {
    [SEND_FIRST] = {IS_REQUEST | IS_SEND | BEGINS, 0},
    [SEND_MIDDLE] = {IS_REQUEST | IS_SEND, 0},
    [SEND_LAST] = {IS_REQUEST | IS_SEND | ENDS, 0},
    [SEND_LAST_IMMEDIATE] = {IS_REQUEST | IS_SEND | ENDS, IMMEDIATE},
    [SEND_ONLY] = {IS_REQUEST | IS_SEND | BEGINS | ENDS, 0},
    [SEND_ONLY_IMMEDIATE] = {IS_REQUEST | IS_SEND | BEGINS | ENDS, IMMEDIATE},
    [WRITE_FIRST] = {IS_REQUEST | IS_WRITE | BEGINS, RETH},
    [WRITE_MIDDLE] = {IS_REQUEST | IS_WRITE, 0},
    [WRITE_LAST] = {IS_REQUEST | IS_WRITE | ENDS, 0},
    [WRITE_LAST_IMMEDIATE] = {IS_REQUEST | IS_WRITE | HAS_IMMEDIATE | ENDS, IMMEDIATE},
    [WRITE_ONLY] = {IS_REQUEST | IS_WRITE | BEGINS | ENDS, RETH},
    [WRITE_ONLY_IMMEDIATE] = {IS_REQUEST | IS_WRITE | HAS_IMMEDIATE | BEGINS | ENDS,
                              RETH + IMMEDIATE},
    [READ_REQUEST] = {IS_REQUEST | BEGINS | ENDS | IS_RC_ONLY, RETH},
    [COMPARE_SWAP] = {IS_REQUEST | IS_ATOMIC | BEGINS | ENDS | IS_RC_ONLY, ATOMIC_ETH},
    [FETCH_ADD] = {IS_REQUEST | IS_ATOMIC | BEGINS | ENDS | IS_RC_ONLY, ATOMIC_ETH},
    [SEND_LAST_INVALIDATE] = {IS_REQUEST | IS_SEND | ENDS | IS_RC_ONLY, IMMEDIATE},
    [SEND_ONLY_INVALIDATE] = {IS_REQUEST | IS_SEND | BEGINS | ENDS | IS_RC_ONLY, IMMEDIATE},
};

static uint32_t add_words(uint32_t sum, const uint8_t *bytes, uint32_t count)
{
    for (; count > 1; bytes += 2, count -= 2)
        sum += get16(bytes);
    return count ? sum + ((uint32_t)*bytes << 8) : sum;
}

/* Folds a sum of 16-bit words (RFC 1071). The checksum is right if the result is 0xffff. */
static uint16_t folded(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)(sum + (sum >> 16));
}

uint16_t ip_checksum(const uint8_t *header)
{
    return folded(add_words(0, header, IPV4));
}

/* In the iCRC, fields that change in transit count as ones (IBTA A16.5.1, A17.3.3). These are: TOS,
 * TTL and checksum of IPv4; traffic class, flow label and hop limit of IPv6 and GRH; the UDP
 * checksum; FECN and BECN of BTH. */
static const struct crc_mask over_ipv4 = {{
    [1] = 0xff, [8] = 0xff, [10] = 0xff, 0xff, [IPV4 + 6] = 0xff, 0xff, [IPV4 + UDP + 4] = 0xff,
}};
static const struct crc_mask over_ipv6 = {{
    0x0f, 0xff, 0xff, 0xff, [7] = 0xff, [IPV6 + 6] = 0xff, 0xff, [IPV6 + UDP + 4] = 0xff,
}};
static const struct crc_mask over_grh = {{
    0x0f, 0xff, 0xff, 0xff, [7] = 0xff, [GRH + 4] = 0xff,
}};

/* Returns the correct iCRC. The lowest byte of the result is the first byte on the wire. */
uint32_t icrc(const uint8_t *network, const uint8_t *bth, const uint8_t *end)
{
    const struct crc_mask *mask = &over_ipv4;

    if (bth - network == GRH)
        mask = &over_grh;
    else if (bth - network == IPV6 + UDP)
        mask = &over_ipv6;
    return ~crc_add(crc_after_lrh, network, (size_t)(end - network), mask);
}

static void read_ipv4_gid(const uint8_t *at, struct roce_gid *gid)
{
    memset(gid->bytes, 0, 10);
    gid->bytes[10] = gid->bytes[11] = 0xff;
    memcpy(gid->bytes + 12, at, 4);
}

static enum roce_reason read_udp(const uint8_t *ip, const uint8_t *udp, const uint8_t *end,
                               const uint8_t **end_of_udp)
{
    uint32_t length, addresses = ip[0] >> 4 == 4 ? 8 : 32;

    if (end - udp < UDP)
        return ROCE_TRUNCATED;
    if (get16(udp + 2) != PORT)
        return ROCE_FOREIGN;
    length = get16(udp + 4);
    if (length < UDP || length > end - udp)
        return ROCE_TRUNCATED;
    *end_of_udp = udp + length;
    if (get16(udp + 6) &&
        folded(add_words(add_words(NEXT_UDP + length, udp - addresses, addresses), udp, length)) !=
            0xffff)
        return ROCE_UDP_CHECKSUM;
    return ROCE_ACCEPTED;
}

static enum roce_reason read_ipv4(const uint8_t *ip, const uint8_t **end, struct packet *packet)
{
    uint32_t length;

    if (*end - ip < IPV4)
        return ROCE_TRUNCATED;
    if (ip[9] != NEXT_UDP)
        return ROCE_FOREIGN;
    length = get16(ip + 2);
    if (length < IPV4 || length > *end - ip)
        return ROCE_TRUNCATED;
    if (ip[0] != 0x45 || get16(ip + 6) & 0x3fff || ip_checksum(ip) != 0xffff)
        return ROCE_IP_HEADER;
    read_ipv4_gid(ip + 12, &packet->source);
    read_ipv4_gid(ip + 16, &packet->destination);
    packet->bth = ip + IPV4 + UDP;
    return read_udp(ip, ip + IPV4, ip + length, end);
}

/* Reads an IPv6 header, or a GRH, whose format is the same (IBTA, 8.3). */
static enum roce_reason read_ipv6(const uint8_t *ip, const uint8_t **end, struct packet *packet)
{
    bool is_grh = packet->ethertype == ROCE_V1;
    uint32_t length;

    if (*end - ip < IPV6)
        return ROCE_TRUNCATED;
    if (!is_grh && ip[6] != NEXT_UDP)
        return ROCE_FOREIGN;
    if (ip[0] >> 4 != 6 || (is_grh && ip[6] != NEXT_BTH))
        return ROCE_IP_HEADER;
    length = get16(ip + 4);
    if (length > *end - ip - IPV6)
        return ROCE_TRUNCATED;
    memcpy(packet->source.bytes, ip + 8, 16);
    memcpy(packet->destination.bytes, ip + 24, 16);
    packet->bth = ip + IPV6 + (is_grh ? 0 : UDP);
    *end = ip + IPV6 + length;
    return is_grh ? ROCE_ACCEPTED : read_udp(ip, ip + IPV6, *end, end);
}

static enum roce_reason read_network(const struct roce_nic *nic, const uint8_t *frame,
                                     uint32_t length, const uint8_t **end, struct packet *packet)
{
    static const uint8_t any[6];

    if (length < ETHERNET)
        return ROCE_FOREIGN;
    if (memcmp(nic->config.mac, any, sizeof any) && memcmp(nic->config.mac, frame, sizeof any))
        return ROCE_FOREIGN;
    packet->frame = frame;
    packet->ethertype = get16(frame + 12);
    *end = frame + length;
    switch (packet->ethertype) {
    case TYPE_IPV4: return read_ipv4(frame + ETHERNET, end, packet);
    case TYPE_IPV6:
    case ROCE_V1: return read_ipv6(frame + ETHERNET, end, packet);
    default: return ROCE_FOREIGN;
    }
}

/* Finds the end of the headers that the opcode requires. Only the headers of supported requests are
 * known. */
static enum roce_reason read_transport(const uint8_t *end, struct packet *packet)
{
    const uint8_t *bth = packet->bth;
    uint32_t headers, left;

    packet->opcode = bth[0];
    packet->padding = bth[1] >> 4 & 3;
    packet->qpn = get24(bth + 5);
    packet->wants_ack = bth[8] & 0x80;
    packet->psn = get24(bth + 9);
    packet->operation = &operations[packet->opcode & (OPERATIONS - 1)];
    headers = packet->qpn == GSI ? DETH : packet->operation->headers;
    left = (uint32_t)(end - bth) - BTH - ICRC;
    if (left < headers + packet->padding)
        return ROCE_TRUNCATED;
    packet->headers = bth + BTH;
    packet->payload = packet->headers + headers;
    packet->payload_length = left - headers - packet->padding;
    return ROCE_ACCEPTED;
}

enum roce_reason read_packet(const struct roce_nic *nic, const uint8_t *frame, uint32_t length,
                             struct packet *packet, struct roce_refusal *refusal)
{
    const uint8_t *end;
    enum roce_reason reason = read_network(nic, frame, length, &end, packet);
    uint32_t right, given;

    if (reason)
        return reason;
    if (end - packet->bth < BTH + ICRC)
        return ROCE_TRUNCATED;
    right = icrc(frame + ETHERNET, packet->bth, end - ICRC);
    memcpy(&given, end - ICRC, sizeof given);
    reason = read_transport(end, packet);
    refusal->qpn = packet->qpn;
    refusal->psn = packet->psn;
    refusal->opcode = packet->opcode;
    if (right != given) {
        refusal->got = __builtin_bswap32(given);
        refusal->expected = __builtin_bswap32(right);
        return ROCE_ICRC;
    }
    return reason;
}
