/* Parser of frames with VLAN tags, IPv4, IPv6 and its extension headers, and ports. */
#ifndef PACKET_H
#define PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum {
    MOST_VLANS = 4,      /* maximum number of VLAN tags; a frame with more tags counts as not IP */
    MOST_EXTENSIONS = 8, /* maximum number of IPv6 extension headers that are parsed */
    MOST_HEADERS = 256, /* maximum total length of the headers of a packet in bytes */
    LAST_OFFSET = 0x3fff, /* maximum offset in a frame that the parser reads */
};

struct packet {
    /* network byte order; IPv4 addresses as ::ffff:a.b.c.d, so IPv4 and IPv6 have the same kind of
     * key */
    __u32 source[4];
    __u32 destination[4];
    /* 0 if the packet has no ports: it is truncated, not the first fragment, or of another
     * protocol */
    __be16 source_port;
    __be16 destination_port;
    __u16 ether_type; /* after the VLAN tags */
    __u16 network_offset;
    __u16 transport_offset; /* 0 means that the transport header is missing or unknown */
    __u8 version;           /* 4 or 6; 0 means not IP */
    __u8 vlans;
    /* IPv6: the protocol after the extension headers; if an extension header is truncated, its
     * protocol */
    __u8 protocol;
    __u8 tcp_flags;
    bool is_fragment; /* true for all fragments, including the first */
};

/* State of the parser: the bounds of the data, and the offset at which the frame (or its IP packet)
 * ends. */
struct reading {
    void *data;
    void *data_end;
    __u32 packet_end;
};

/* Limit an offset, so that the verifier tracks only this bound. Otherwise, the state of the
 * verifier would differ between paths, and the verifier would follow each path to its end. */
#define BOUNDED(offset, most)                                                                      \
    ({                                                                                             \
        __u32 _offset = (offset);                                                                  \
        asm volatile("" : "+r"(_offset));                                                          \
        _offset & (most);                                                                          \
    })

/* Return a pointer to `size` bytes; NULL if they exceed the IP packet or the frame. The code hides
 * from the compiler how its pointers are related. Otherwise, clang 19 checks one pointer, but reads
 * through another pointer, and the verifier rejects this. */
static __always_inline void *read_at(const struct reading *reading, __u32 offset, __u32 size)
{
    void *at;

    if (offset > LAST_OFFSET || offset + size > reading->packet_end)
        return 0;
    at = reading->data + BOUNDED(offset, LAST_OFFSET);
    return at + size > reading->data_end ? 0 : at;
}

/* Return whether headers of this protocol begin with two ports. */
static __always_inline bool has_ports(__u8 protocol)
{
    return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP ||
           protocol == IPPROTO_DCCP || protocol == IPPROTO_UDPLITE;
}

static __always_inline void parse_transport(const struct reading *reading, __u32 offset,
                                            struct packet *packet)
{
    const __be16 *ports;
    const __u8 *flags;

    packet->transport_offset = offset;
    ports = has_ports(packet->protocol) ? read_at(reading, offset, 4) : 0;
    if (!ports)
        return;
    packet->source_port = ports[0];
    packet->destination_port = ports[1];
    flags = packet->protocol == IPPROTO_TCP ? read_at(reading, offset + 13, 1) : 0;
    if (flags)
        packet->tcp_flags = *flags; /* flags as in RFC 9293, 3.1 */
}

/* Set the end of an IP packet. The frame may be longer than the packet. If it is shorter, this
 * returns false, unless the packet is quoted. */
static __always_inline bool ends_at(struct reading *reading, __u32 end, bool is_quoted)
{
    if (end > reading->packet_end)
        return is_quoted;
    reading->packet_end = end;
    return true;
}

static __always_inline bool parse_ip(struct reading *reading, struct packet *packet, bool is_quoted)
{
    const struct iphdr *ip = read_at(reading, packet->network_offset, sizeof(*ip));
    __u32 header, fragment;

    if (!ip || ip->version != 4 || ip->ihl < 5)
        return false;
    header = ip->ihl * 4;
    if (bpf_ntohs(ip->tot_len) < header ||
        !ends_at(reading, packet->network_offset + bpf_ntohs(ip->tot_len), is_quoted))
        return false;
    packet->source[2] = packet->destination[2] = bpf_htonl(0xffff);
    packet->source[3] = ip->saddr;
    packet->destination[3] = ip->daddr;
    packet->protocol = ip->protocol;
    fragment = bpf_ntohs(ip->frag_off);
    /* not 0 if this is a later fragment, or if more fragments follow (RFC 791, 3.1) */
    packet->is_fragment = fragment & 0x3fff;
    if (!(fragment & 0x1fff))
        parse_transport(reading, packet->network_offset + header, packet);
    return true;
}

/* Extension headers by number (RFC 8200, 4; AH: RFC 4302, 2.2). The second byte of a header is a
 * number of units. The length of the header is `fixed` bytes, plus `more` bytes per unit. The code
 * uses a table, because the verifier would follow each branch of a switch statement. */
static const struct {
    __u8 fixed;
    __u8 more;
} extensions[256] = {
    [IPPROTO_HOPOPTS] = {8, 8}, [IPPROTO_ROUTING] = {8, 8}, [IPPROTO_DSTOPTS] = {8, 8},
    [IPPROTO_MH] = {8, 8},      [IPPROTO_FRAGMENT] = {8, 0},  [IPPROTO_AH] = {8, 4},
    [139 /* HIP */] = {8, 8},   [140 /* Shim6 */] = {8, 8},
};

static __always_inline void parse_extensions(const struct reading *reading, __u32 offset,
                                             struct packet *packet)
{
    for (int i = 0; i <= MOST_EXTENSIONS; i++) {
        __u8 kind = packet->protocol;
        const __u8 *header;

        if (!extensions[kind].fixed) {
            parse_transport(reading, offset, packet);
            return;
        }
        header = i < MOST_EXTENSIONS ? read_at(reading, offset, 8) : 0;
        if (!header)
            return;
        packet->protocol = header[0];
        /* RFC 8200, 4.5: 13 bits of offset, 2 reserved bits, and 1 bit "more fragments" */
        if (kind == IPPROTO_FRAGMENT) {
            __u16 fragment = header[2] << 8 | header[3];

            packet->is_fragment |= (fragment & 0xfff9) != 0;
            if (fragment & 0xfff8)
                return;
        }
        offset += extensions[kind].fixed + extensions[kind].more * header[1];
        if (offset > LAST_OFFSET)
            return;
        offset = BOUNDED(offset, LAST_OFFSET);
    }
}

static __always_inline bool parse_ip6(struct reading *reading, struct packet *packet, bool is_quoted)
{
    const struct ipv6hdr *ip = read_at(reading, packet->network_offset, sizeof(*ip));
    __u32 start = packet->network_offset + sizeof(*ip);

    if (!ip || ip->version != 6 || !ends_at(reading, start + bpf_ntohs(ip->payload_len), is_quoted))
        return false;
    __builtin_memcpy(packet->source, &ip->saddr, sizeof(packet->source));
    __builtin_memcpy(packet->destination, &ip->daddr, sizeof(packet->destination));
    packet->protocol = ip->nexthdr;
    parse_extensions(reading, start, packet);
    return true;
}

/* Parse a frame of `length` bytes. Only its first bytes need to be accessible. Returns false if the
 * frame is not IP (then `version` is 0), or if the IP header is truncated or has wrong lengths.
 * After false, only the fields of earlier headers are valid. */
static __always_inline bool parse_head(void *data, void *data_end, __u32 length,
                                       struct packet *packet)
{
    struct reading reading = {data, data_end, length};
    const __be16 *type = read_at(&reading, 2 * ETH_ALEN, 2);

    *packet = (struct packet){};
    for (int i = 0; i < MOST_VLANS; i++) {
        if (!type || (*type != bpf_htons(ETH_P_8021Q) && *type != bpf_htons(ETH_P_8021AD)))
            break;
        packet->vlans++;
        type = read_at(&reading, 2 * ETH_ALEN + 4 * packet->vlans, 2);
    }
    if (!type)
        return false;
    packet->ether_type = bpf_ntohs(*type);
    packet->network_offset = BOUNDED(ETH_HLEN + 4 * packet->vlans, 63);
    if (packet->ether_type == ETH_P_IP) {
        packet->version = 4;
        return parse_ip(&reading, packet, false);
    }
    if (packet->ether_type == ETH_P_IPV6) {
        packet->version = 6;
        return parse_ip6(&reading, packet, false);
    }
    return false;
}

/* Parse a frame whose bytes are all accessible, as at XDP. */
static __always_inline bool parse(void *data, void *data_end, struct packet *packet)
{
    return parse_head(data, data_end, data_end - data, packet);
}

/* types of ICMP errors (RFC 792) */
enum { UNREACHABLE = 3, TIME_EXCEEDED = 11, PARAMETER_PROBLEM = 12 };

/* Parse the packet that an ICMP error quotes. parse() must have parsed the frame with the error.
 * The quoted packet starts after 8 bytes (RFC 792; RFC 4443, 2.1). Returns false if the packet is
 * no ICMP error, or if the error quotes no IP header. */
static __always_inline bool parse_quoted(void *data, void *data_end, const struct packet *error,
                                         struct packet *quoted)
{
    struct reading reading = {data, data_end, data_end - data};
    const __u8 *type = error->transport_offset ? read_at(&reading, error->transport_offset, 8) : 0;

    *quoted = (struct packet){.version = error->version};
    quoted->network_offset = error->transport_offset + 8;
    if (!type)
        return false;
    if (error->version == 4 && error->protocol == IPPROTO_ICMP &&
        (*type == UNREACHABLE || *type == TIME_EXCEEDED || *type == PARAMETER_PROBLEM))
        return parse_ip(&reading, quoted, true);
    if (error->version == 6 && error->protocol == IPPROTO_ICMPV6 && *type < 128)
        return parse_ip6(&reading, quoted, true);
    return false;
}

/* Make the headers of a packet accessible. At tc, the linear part of the packet may contain only a
 * few bytes. After this call, pointers into the packet must be loaded again. */
static __always_inline void pull_headers(struct __sk_buff *skb)
{
    if (skb->data_end - skb->data < MOST_HEADERS && skb->data_end - skb->data < skb->len)
        bpf_skb_pull_data(skb, skb->len < MOST_HEADERS ? skb->len : MOST_HEADERS);
}

#endif
