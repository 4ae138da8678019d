// INT-XD on a host. If a packet of a watched flow leaves or arrives at this device, the program
// sends INT metadata to user space. In user space, postcards.py writes the report. Packets are not
// modified.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "crc32.h"
#include "headers.h"

struct watched {
    __u32 priority;
    __u32 share; // number of hash values that are selected, of 2^32 - 1
    __u32 instructions;
};

#include "watch_list.h"

enum { PAYLOAD_BYTES = 16 }; // for UDP packets that have no identification, as in report.p4
enum { MOST_INNER_BYTES = 136 }; // enough for IPv4 and TCP with options of maximum length
enum { LEAVING, ARRIVING, DIRECTIONS };

volatile struct setting {
    __u64 offset_us; // time of the common clock minus time of this host's clock
    __u32 collector; // in network byte order; packets to this address are not reported
    __be16 port;
    __u16 unused;
} setting;

// number of reports per direction, including reports for which the buffer had no room
volatile __u64 sequences[DIRECTIONS];
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
    __u8 inner[MOST_INNER_BYTES]; // bytes of the packet, from the IP header on
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 22); // in bytes; this is room for about 20,000 postcards
} postcards SEC(".maps");

// Return whether to report a packet. The edge program of the other host and all switches select the
// same packets (sample() in p4src/int/watch.p4). The hash leaves out headers that the packet lacks.
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

// Return how many bytes of the packet a report contains, as WriteReport does in report.p4. Returns
// 0 if the options of IP or TCP are truncated, because switches do not accept such packets.
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

// Report a packet. If the buffer is full, the report is lost. The collector then detects a gap in
// the sequence numbers.
static __always_inline void report(struct __sk_buff *packet, const struct headers *headers,
                                   __u32 instructions, __u32 bytes, __u32 direction)
{
    struct postcard *postcard;
    __u64 sequence = __sync_fetch_and_add(&sequences[direction], 1);

    // this line makes the compiler check the bounds where `bytes` is used
    asm volatile("" : "+r"(bytes));
    if (bytes > MOST_INNER_BYTES)
        return;
    // the verifier of Linux 6.1 does not track both bounds of one value, so there are two values
    asm volatile("" : "+r"(bytes));
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
        // impossible, because inner_bytes() has checked the length
        bpf_ringbuf_discard(postcard, 0);
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
