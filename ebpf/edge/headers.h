/* Parser of frames. It is equivalent to the parser of switches (p4src/include/parser.p4), so that
 * hosts and switches count the same packets. Therefore, it accepts fewer headers than packet.h (no
 * VLAN tags, no chains of IPv6 headers), and does not check lengths. It finds the AltMark option
 * (RFC 9343) if the option ends within the first 32 bytes of an options header. */
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
enum { OPTIONS_WINDOW = 32 }; /* bytes of an options header in which options are examined */
enum { PAD1 = 0, ALTMARK = 0x12, ALTMARK_BYTES = 4 }; /* types and a length of options */

struct ports { /* The first bytes, which UDP and TCP headers have in common. */
    __be16 source;
    __be16 destination;
    __be32 word;
};

struct options { /* the start of a hop-by-hop or destination options header */
    __u8 next_header;
    __u8 length; /* in units of 8 bytes, without the first 8 bytes */
};

struct altmark {
    __u8 type;
    __u8 length;
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
    struct options options;
    struct altmark altmark;
    struct ports ports; /* zero if the packet has no ports */
    __u32 altmark_offset;
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

struct search { /* Search for the AltMark option. */
    __u8 window[OPTIONS_WINDOW]; /* the start of an options header */
    __u32 size; /* number of bytes in the window */
    __u32 at; /* position of the option that is examined next */
    bool is_found;
};

/* Examine one option. Return 1 if the search ends. */
static long examine_option(__u32 number, void *context)
{
    struct search *search = context;
    __u32 at = search->at;
    __u8 type, length;

    if (at > OPTIONS_WINDOW - 2 || at + 2 > search->size)
        return 1;
    type = search->window[at];
    length = search->window[at + 1];
    search->is_found = type == ALTMARK && length == ALTMARK_BYTES &&
                       at + sizeof(struct altmark) <= search->size;
    if (search->is_found)
        return 1;
    search->at = at + (type == PAD1 ? 1 : 2 + length);
    return 0;
}

/* Read the start of an options header. The verifier requires a constant size of each copy. */
static __always_inline bool read_window(struct __sk_buff *packet, __u32 offset, __u8 length,
                                        struct search *search)
{
    if (length >= 3) {
        search->size = 32;
        return take(packet, offset, search->window, 32);
    }
    if (length == 2) {
        search->size = 24;
        return take(packet, offset, search->window, 24);
    }
    if (length == 1) {
        search->size = 16;
        return take(packet, offset, search->window, 16);
    }
    search->size = 8;
    return take(packet, offset, search->window, 8);
}

/* Read an options header with an AltMark option. If an inner IPv6 packet follows, the ports are
 * those of the inner packet. Headers longer than 32 bytes are not read to their end, so the packet
 * has no ports. */
static __always_inline void read_altmark(struct __sk_buff *packet, struct headers *headers)
{
    struct search search = {.at = sizeof(struct options)};
    struct options *options = &headers->options;
    __u32 offset = headers->transport_offset;
    struct ipv6hdr inner;

    if (!take(packet, offset, options, sizeof(*options)) ||
        !read_window(packet, offset, options->length, &search))
        return;
    /* a loop in the program would be verified for each number of options */
    bpf_loop(OPTIONS_WINDOW, examine_option, &search, 0);
    headers->altmark_offset = offset + search.at;
    if (!search.is_found ||
        !take(packet, headers->altmark_offset, &headers->altmark, sizeof(headers->altmark)))
        return;
    headers->has_altmark = true;
    headers->transport_offset += 8 * (options->length + 1);
    if (search.size < 8 * (options->length + 1))
        return;
    if (options->next_header != IPPROTO_IPV6) {
        read_ports(packet, headers, options->next_header);
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
    if (ip->nexthdr == IPPROTO_HOPOPTS || ip->nexthdr == IPPROTO_DSTOPTS)
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
