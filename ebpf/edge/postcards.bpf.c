// INT-XD at a host edge: for each packet of a watched flow that leaves or arrives at this device, the INT
// metadata go to user space, which writes the report (postcards.py). Packets are not modified.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "crc32.h"
#include "headers.h"

struct watched {
    __u32 priority;
    __u32 share; // of 2^32 - 1: which of a hash's values are chosen
    __u32 instructions;
};

#include "watch_list.h"

enum { PAYLOAD_BYTES = 16 }; // of UDP packets without an identification: report.p4
enum { MOST_INNER_BYTES = 136 }; // IPv4 and TCP, both with all options, and some more
enum { LEAVING, ARRIVING, DIRECTIONS };

volatile struct setting {
    __u64 offset_us; // common clock - this host's
    __u32 collector; // network order: no reports about reports
    __be16 port;
    __u16 unused;
} setting;

volatile __u64 sequences[DIRECTIONS]; // of reports, with those for which there was no room
volatile __u64 without_room;

struct postcard {
    __u64 sequence;
    __u64 time_us;
    __u32 direction;
    __u32 instructions;
    __u32 device;
    __u32 inner_bytes;
    __u8 version;
    __u8 unused[7];
    __u8 inner[MOST_INNER_BYTES]; // from the IP header on
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 22); // bytes: some 20,000 postcards
} postcards SEC(".maps");

// Both ends and all switches choose the same packets: sample() of p4src/int/watch.p4, where headers that a
// packet has not are left out.
static __always_inline bool is_chosen(const struct headers *headers, __u32 share)
{
    __u32 crc = 0;

    if (share == ~0U)
        return true;
    if (headers->version == 4) {
        crc = crc32(crc, &headers->ip4.saddr, 8);
        crc = crc32(crc, &headers->ip4.id, 2);
    } else {
        crc = crc32(crc, &headers->ip6.saddr, 32);
    }
    if (headers->has_ports)
        crc = crc32(crc, &headers->ports, sizeof(headers->ports));
    return crc <= share;
}

// The bytes that a report has of the packet, as WriteReport of report.p4; 0: the switches do not take it
// for a whole packet, since options of IP or TCP are cut off.
static __always_inline __u32 inner_bytes(struct __sk_buff *packet, const struct headers *headers)
{
    __u32 ip_bytes = headers->transport_offset - ETH_HLEN, bytes = ip_bytes, length;
    __u8 words;

    if (packet->len < headers->transport_offset)
        return 0;
    length = headers->version == 4 ? bpf_ntohs(headers->ip4.tot_len)
                                   : bpf_ntohs(headers->ip6.payload_len) + ip_bytes;
    if (!headers->has_ports)
        return bytes;
    if (headers->protocol == IPPROTO_TCP &&
        packet->len >= headers->transport_offset + 20 &&
        take(packet, headers->transport_offset + 12, &words, 1)) {
        bytes += (words >> 4) * 4;
        return words >> 4 < 5 || packet->len < ETH_HLEN + bytes ? 0 : bytes;
    }
    bytes += sizeof(struct ports);
    if (headers->protocol == IPPROTO_UDP && (headers->version == 6 || !headers->ip4.id) &&
        packet->len >= length + ETH_HLEN && length >= bytes + PAYLOAD_BYTES)
        bytes += PAYLOAD_BYTES;
    return bytes;
}

static __always_inline bool is_report(const struct headers *headers)
{
    return headers->version == 4 && headers->has_ports &&
           headers->ip4.daddr == setting.collector && headers->ports.destination == setting.port;
}

// A report that finds no room leaves a gap in the numbers, which its collector sees.
static __always_inline void report(struct __sk_buff *packet, const struct headers *headers,
                                   __u32 instructions, __u32 bytes, __u32 direction)
{
    struct postcard *postcard;
    __u64 sequence = __sync_fetch_and_add(&sequences[direction], 1);

    asm volatile("" : "+r"(bytes)); // its bounds are checked where it is used
    if (bytes > MOST_INNER_BYTES)
        return;
    asm volatile("" : "+r"(bytes)); // each by itself: Linux 6.1 does not follow both in one
    if (bytes < sizeof(struct iphdr))
        return;
    postcard = bpf_ringbuf_reserve(&postcards, sizeof(*postcard), 0);
    if (!postcard) {
        __sync_fetch_and_add(&without_room, 1);
        return;
    }
    postcard->sequence = sequence;
    postcard->time_us = bpf_ktime_get_ns() / 1000 + setting.offset_us;
    postcard->direction = direction;
    postcard->instructions = instructions;
    postcard->device = packet->ifindex;
    postcard->version = headers->version;
    postcard->inner_bytes = bytes;
    if (bpf_skb_load_bytes(packet, ETH_HLEN, postcard->inner, bytes)) {
        bpf_ringbuf_discard(postcard, 0); // never: inner_bytes() knows the length
        return;
    }
    bpf_ringbuf_submit(postcard, 0);
}

static __always_inline int passed(struct __sk_buff *packet, __u32 direction)
{
    struct headers headers;
    enum kind kind = read_headers(packet, &headers);
    const struct watched *watched = 0;
    __u32 bytes = 0;

    if (kind == UNWATCHED && !headers.has_altmark && !is_report(&headers))
        bytes = inner_bytes(packet, &headers);
    if (bytes)
        watched = watched_by(&headers);
    if (watched) {
        kind = WATCHED;
        if (is_chosen(&headers, watched->share))
            report(packet, &headers, watched->instructions, bytes, direction);
    }
    count_kind(kind);
    return TC_ACT_UNSPEC;
}

SEC("tc")
int postcards_leaving(struct __sk_buff *packet)
{
    return passed(packet, LEAVING);
}

SEC("tc")
int postcards_arriving(struct __sk_buff *packet)
{
    return passed(packet, ARRIVING);
}

char _license[] SEC("license") = "Dual MIT/GPL";
