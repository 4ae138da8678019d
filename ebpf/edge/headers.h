/* Parser of frames. It is equivalent to the parser of switches (p4src/include/parser.p4), so that
 * hosts and switches count the same packets. Therefore, it accepts fewer headers than packet.h (no
 * VLAN tags, no chains of IPv6 headers), and does not check lengths. */
#ifndef HEADERS_H
#define HEADERS_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { MOST_FRAGMENT_OFFSET = 0x1fff };

struct ports { /* The first bytes, which UDP and TCP headers have in common. */
    __be16 source;
    __be16 destination;
    __be32 word;
};

struct altmark { /* A hop-by-hop header that contains only the AltMark option (RFC 9343). */
    __u8 next_header;
    __u8 alone[3];
    __u8 flow_mon_id[2];
    __u8 flags; /* four bits of the FlowMonID, then the flags L and D */
    __u8 reserved;
};

enum kind {
    WATCHED,
    UNWATCHED,
    TAGGED, /* packet with VLAN tags; as in switches, it belongs to no flow */
    NOT_IP,
    MALFORMED, /* the IP header is truncated or too short, or has another version */
    /* packet of a watched flow whose marks were not written, because the kernel had no memory */
    UNWRITTEN,
    KINDS,
};

struct headers {
    union {
        struct iphdr ip4;
        struct ipv6hdr ip6;
    };
    struct altmark altmark;
    struct ports ports; /* zero if the packet has no ports */
    __u32 transport_offset;
    __u8 version; /* 4 or 6 */
    __u8 protocol;
    bool has_altmark;
    bool has_ports;
};

/* Copy bytes of a packet. The data of the packet may be in several pieces of memory. */
static __always_inline bool take(struct __sk_buff *packet, __u32 offset, void *to, __u32 size)
{
    return bpf_skb_load_bytes(packet, offset, to, size) == 0;
}

static __always_inline void read_ports(struct __sk_buff *packet, struct headers *headers,
                                       __u8 protocol)
{
    headers->protocol = protocol;
    if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
        return;
    headers->has_ports =
        take(packet, headers->transport_offset, &headers->ports, sizeof(headers->ports));
    if (!headers->has_ports)
        __builtin_memset(&headers->ports, 0, sizeof(headers->ports));
}

static __always_inline bool read_ip4(struct __sk_buff *packet, struct headers *headers)
{
    struct iphdr *ip = &headers->ip4;

    headers->version = 4;
    if (!take(packet, ETH_HLEN, ip, sizeof(*ip)) || ip->ihl < 5)
        return false;
    headers->protocol = ip->protocol;
    headers->transport_offset = ETH_HLEN + ip->ihl * 4;
    if (!(bpf_ntohs(ip->frag_off) & MOST_FRAGMENT_OFFSET))
        read_ports(packet, headers, ip->protocol);
    return true;
}

/* Read an AltMark option. If an inner IPv6 packet follows, the ports are those of the inner
 * packet. */
static __always_inline void read_altmark(struct __sk_buff *packet, struct headers *headers)
{
    struct altmark *mark = &headers->altmark;
    struct ipv6hdr inner;

    if (!take(packet, headers->transport_offset, mark, sizeof(*mark)))
        return;
    if (mark->alone[0] != 0 || mark->alone[1] != 0x12 || mark->alone[2] != 4)
        return;
    headers->has_altmark = true;
    headers->transport_offset += sizeof(*mark);
    if (mark->next_header != IPPROTO_IPV6) {
        read_ports(packet, headers, mark->next_header);
    } else if (take(packet, headers->transport_offset, &inner, sizeof(inner))) {
        headers->transport_offset += sizeof(inner);
        read_ports(packet, headers, inner.nexthdr);
    }
}

static __always_inline bool read_ip6(struct __sk_buff *packet, struct headers *headers)
{
    struct ipv6hdr *ip = &headers->ip6;

    headers->version = 6;
    if (!take(packet, ETH_HLEN, ip, sizeof(*ip)) || ip->version != 6)
        return false;
    headers->transport_offset = ETH_HLEN + sizeof(*ip);
    headers->protocol = ip->nexthdr;
    if (ip->nexthdr == IPPROTO_HOPOPTS)
        read_altmark(packet, headers);
    else
        read_ports(packet, headers, ip->nexthdr);
    return true;
}

/* Parse the headers. For any valid IP packet, the result is UNWATCHED, because this function does
 * not look up the watch list. */
static __always_inline enum kind read_headers(struct __sk_buff *packet, struct headers *headers)
{
    __be16 type;
    bool is_whole;

    __builtin_memset(headers, 0, sizeof(*headers));
    if (!take(packet, 2 * ETH_ALEN, &type, sizeof(type)))
        return NOT_IP;
    if (packet->vlan_present || type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD))
        return TAGGED;
    if (type != bpf_htons(ETH_P_IP) && type != bpf_htons(ETH_P_IPV6))
        return NOT_IP;
    is_whole = type == bpf_htons(ETH_P_IP) ? read_ip4(packet, headers) : read_ip6(packet, headers);
    return is_whole ? UNWATCHED : MALFORMED;
}

#endif
