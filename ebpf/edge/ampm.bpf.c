// Alternate marking on a host (RFC 9341). Rules, marks and records are the same as in p4src/ampm/.
// The program marks and counts packets that leave the device. It counts packets that arrive, and
// removes their marks.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "crc32.h"
#include "headers.h"

struct watched {
    __u32 flow; // number of the flow
    __u32 priority;
    __u8 methods;
    __u8 dscp; // DSCP outside of the domain; the bits used for marks are restored from it
    __u8 is_first; // 1: mark packets that leave; 0: clear the marks of packets that arrive
    __u8 unused;
};

#include "records.h"
#include "watch_list.h"

enum { STEP = 1, PULSE = 2, MULTIPLEXED = 4, HASHED = 8 }; // methods, as in watch.p4
enum { COLOUR_BIT = 1, PULSE_BIT = 2 }; // bits of the DSCP, as in allocation.p4
enum { DSCP_SHIFT = 2, ALTMARK_COLOUR = 8, ALTMARK_PULSE = 4 };

volatile struct setting {
    __u64 offset_us; // time of the common clock minus time of this host's clock
    __u32 block_shift; // the length of a block is 2^block_shift us
    __u32 sampling_mask; // a packet is a sample if these bits of its hash are 0
} setting;

// Return a hash of fields that no switch changes, as HashedChoice does in hashed.p4.
static __always_inline __u32 hash_of(const struct headers *headers)
{
    struct {
        __u8 addresses[32];
        __u8 protocol;
        __u8 fields[5];
        __u8 transport[8];
    } __attribute__((packed)) whole = {};
    struct {
        __u8 addresses[8];
        __u8 protocol;
        // total length; identification; and the field with flags and fragment offset
        __u8 fields[6];
        __u8 transport[8];
    } __attribute__((packed)) of_ip4 = {};

    if (headers->version == 4) {
        __builtin_memcpy(of_ip4.addresses, &headers->ip4.saddr, 8);
        of_ip4.protocol = headers->protocol;
        __builtin_memcpy(of_ip4.fields, &headers->ip4.tot_len, 6);
        __builtin_memcpy(of_ip4.transport, &headers->ports, 8);
        return crc32(0, &of_ip4, sizeof(of_ip4));
    }
    __builtin_memcpy(whole.addresses, &headers->ip6.saddr, 32);
    whole.protocol = headers->options.next_header;
    __builtin_memcpy(whole.fields, &headers->ip6.payload_len, 2);
    // flow label and four zero bits
    whole.fields[2] = headers->ip6.flow_lbl[0] << 4 | headers->ip6.flow_lbl[1] >> 4;
    whole.fields[3] = headers->ip6.flow_lbl[1] << 4 | headers->ip6.flow_lbl[2] >> 4;
    whole.fields[4] = headers->ip6.flow_lbl[2] << 4;
    __builtin_memcpy(whole.transport, &headers->ports, 8);
    return crc32(0, &whole, sizeof(whole));
}

// Assign the packet to the nearest block of this colour, as NearestBlock does in watch.p4.
static __always_inline void attribute(struct watch *watch, __u8 colour, __u32 shift)
{
    __u64 length_us = 1ULL << shift;
    __u64 phase_us = (watch->now_us - watch->block_us) & CLOCK_MASK;

    if (watch->colour == colour)
        return;
    watch->colour = colour;
    watch->block_us += phase_us < length_us >> 1 ? -length_us : length_us;
    watch->block_us &= CLOCK_MASK;
}

// Return whether a pulse may be sent now (schedule.py). A pulse is sent in the middle half of a
// block, or, with multiplexed marking, in the first 1/32 of the second half.
static __always_inline bool in_middle_half(const struct watch *watch, __u32 shift)
{
    __u32 quarter = watch->now_us >> (shift - 2) & 3;

    return quarter == 1 || quarter == 2;
}

static __always_inline bool in_window(const struct watch *watch, __u32 shift)
{
    // the kernel will split this packet into several packets, and all of them would be pulses
    if (watch->packets > 1)
        return false;
    if (watch->methods & MULTIPLEXED)
        return (watch->now_us >> (shift - 5) & 31) == 16;
    return watch->methods & PULSE && in_middle_half(watch, shift);
}

// From the marks of a packet, determine its block, and whether it is a pulse. In switches, Methods
// in methods.p4 does the same at all points except the first.
static __always_inline void observe(struct watch *watch, __u8 marks, __u32 shift)
{
    __u8 colour = marks & COLOUR_BIT;

    if (watch->methods & MULTIPLEXED && in_middle_half(watch, shift)) {
        watch->is_pulse = colour != watch->colour;
        return;
    }
    if (watch->methods & (STEP | MULTIPLEXED))
        attribute(watch, colour, shift);
    if (watch->methods & PULSE)
        watch->is_pulse = marks & PULSE_BIT;
}

static __always_inline __u8 marks_of(const struct headers *headers)
{
    if (headers->version == 4)
        return headers->ip4.tos >> DSCP_SHIFT;
    return (headers->altmark.flags & ALTMARK_COLOUR ? COLOUR_BIT : 0) |
           (headers->altmark.flags & ALTMARK_PULSE ? PULSE_BIT : 0);
}

// Write `marks` to the bits that the methods of the flow use, as LeaveDomain does in watch.p4.
static __always_inline bool write_marks(struct __sk_buff *packet, const struct headers *headers,
                                        const struct watch *watch, __u8 marks)
{
    __u32 taken = 0;
    __u16 before, after;
    __u8 tos, flags;

    if (headers->version == 6) {
        flags = headers->altmark.flags & ~(ALTMARK_COLOUR | ALTMARK_PULSE);
        flags |= (marks & COLOUR_BIT ? ALTMARK_COLOUR : 0) | (marks & PULSE_BIT ? ALTMARK_PULSE : 0);
        return bpf_skb_store_bytes(packet,
                                   headers->altmark_offset +
                                       __builtin_offsetof(struct altmark, flags),
                                   &flags, 1, 0) == 0;
    }
    if (watch->methods & (STEP | MULTIPLEXED))
        taken |= COLOUR_BIT;
    if (watch->methods & PULSE)
        taken |= PULSE_BIT;
    tos = (headers->ip4.tos & ~(taken << DSCP_SHIFT)) | (marks & taken) << DSCP_SHIFT;
    if (tos == headers->ip4.tos)
        return true;
    __builtin_memcpy(&before, &headers->ip4, 2);
    after = bpf_htons((bpf_ntohs(before) & 0xff00) | tos);
    return bpf_l3_csum_replace(packet, ETH_HLEN + __builtin_offsetof(struct iphdr, check), before,
                               after, 2) == 0 &&
           bpf_skb_store_bytes(packet, ETH_HLEN + __builtin_offsetof(struct iphdr, tos), &tos, 1,
                               0) == 0;
}

// Set the numbers of packets and bytes on the wire. If the kernel has merged several packets (GSO,
// GRO), each of them has its own headers on the wire.
static __always_inline void set_size(struct __sk_buff *packet, const struct headers *headers,
                                     struct watch *watch)
{
    __u32 header = headers->transport_offset + sizeof(struct ports);
    __u8 words;

    watch->packets = packet->gso_segs > 1 ? packet->gso_segs : 1;
    watch->bytes = packet->len;
    if (watch->packets == 1)
        return;
    if (headers->protocol == IPPROTO_TCP && take(packet, headers->transport_offset + 12, &words, 1))
        header = headers->transport_offset + (words >> 4) * 4;
    watch->bytes += (watch->packets - 1) * header;
}

static __always_inline enum kind measured(struct __sk_buff *packet, struct headers *headers,
                                          const struct watched *watched)
{
    __u32 number = watched->flow, shift = setting.block_shift;
    struct flow_records *flow = bpf_map_lookup_elem(&records, &number);
    struct watch watch = {.methods = watched->methods, .is_first = watched->is_first};
    __u8 marks = watched->dscp;

    if (!flow)
        // impossible, because watch_list.py never writes more flows than the map has room for
        return UNWATCHED;
    set_size(packet, headers, &watch);
    watch.now_us = (bpf_ktime_get_ns() / 1000 + setting.offset_us) & CLOCK_MASK;
    watch.block_us = watch.now_us >> shift << shift;
    watch.colour = watch.now_us >> shift & 1;
    if (watch.is_first)
        watch.in_window = in_window(&watch, shift);
    else
        observe(&watch, marks_of(headers), shift);
    if (watch.methods & HASHED) {
        watch.hash = hash_of(headers);
        watch.is_sample = !(watch.hash & setting.sampling_mask);
    }
    count(flow, &watch);
    if (watch.is_first && watch.methods & MULTIPLEXED)
        marks = watch.colour ^ watch.is_pulse;
    else if (watch.is_first)
        marks = (watch.methods & STEP ? watch.colour : 0) | (watch.is_pulse ? PULSE_BIT : 0);
    return write_marks(packet, headers, &watch, marks) ? WATCHED : UNWRITTEN;
}

static __always_inline int passed(struct __sk_buff *packet, bool is_leaving)
{
    struct headers headers;
    enum kind kind = read_headers(packet, &headers);

    // An IPv6 packet can be marked only if the host has inserted an AltMark option.
    if (kind == UNWATCHED && (headers.version == 4 || headers.has_altmark)) {
        const struct watched *watched = watched_by(&headers);

        if (watched && watched->is_first == is_leaving)
            kind = measured(packet, &headers, watched);
    }
    count_kind(kind);
    return TC_ACT_UNSPEC;
}

SEC("tc")
int ampm_leaving(struct __sk_buff *packet)
{
    return passed(packet, true);
}

SEC("tc")
int ampm_arriving(struct __sk_buff *packet)
{
    return passed(packet, false);
}

char _license[] SEC("license") = "Dual MIT/GPL";
