/* Reports of IOAM nodes, whose format collectors/ioam/options.py defines, and the IOAM options in
 * the packets of these reports (RFC 9197, 9326 and 9486). */
#include "decoder.h"

enum {
    FIXED = 8, /* length in bytes of the main contents, up to the node data */
    IPV6 = 40, NEXT_HEADER = 6, MAX_EXTENSIONS = 8,
    HOP_BY_HOP = 0, ROUTING = 43, OPTIONS = 60, IPV6_IN_IPV6 = 41,
    PAD1 = 0, UNCHANGED = 0x11, CHANGEABLE = 0x31, /* types of IPv6 options */
    OPTION_HEAD = 4, /* option type, length, reserved, IOAM-Option-Type */
    TRACE_HEADER = 8, DEX_HEADER = 8, E2E_HEADER = 4,
    MAX_NODES = 64, /* an option has at most 255 bytes, and a node at least 4 */
    DEX_FLOW = 0x80, DEX_SEQUENCE = 0x40, /* Extension-Flags */
    E2E_SEQUENCE64 = 0x8000, E2E_SEQUENCE32 = 0x4000, E2E_SECONDS = 0x2000, E2E_FRACTION = 0x1000
};

/* Bits of IOAM-Trace-Type. */
enum {
    HOP_NODE = 1 << 23, INTERFACES = 1 << 22, SECONDS = 1 << 21, FRACTION = 1 << 20,
    TRANSIT_DELAY = 1 << 19, QUEUE_DEPTH = 1 << 17, CHECKSUM = 1 << 16, HOP_NODE_WIDE = 1 << 15,
    INTERFACES_WIDE = 1 << 14, NAMESPACE_WIDE = 1 << 13, BUFFER = 1 << 12,
    OPAQUE = 1 << 1, RESERVED = 1,
    WIDE = HOP_NODE_WIDE | INTERFACES_WIDE | NAMESPACE_WIDE
};

static const uint32_t ones32 = 0xffffffff;
static const uint64_t second_ns = 1000000000, ones56 = 0xffffffffffffff;

/* Returns NodeLen, which does not include the opaque state snapshot. */
static unsigned node_words(uint32_t type)
{
    type &= ~(uint32_t)(OPAQUE | RESERVED);
    return (unsigned)__builtin_popcount(type) + (unsigned)__builtin_popcount(type & WIDE);
}

/* Returns the length in bytes of the node data at the start of a span. If the span is too short,
 * the result is longer than the span. */
static size_t node_bytes(uint32_t type, struct span span)
{
    size_t bytes = 4 * node_words(type);

    if (type & OPAQUE)
        bytes += 4 + (has(span, bytes + 4) ? 4u * span.at[bytes] : 0);
    return bytes;
}

/* Converts a time. Returns false if it is not available. */
static bool read_time(const struct decoder *decoder, uint32_t seconds, uint32_t fraction,
                      uint64_t *time_ns)
{
    uint64_t unit_ns = decoder->settings->fraction_ns;
    uint64_t fraction_ns = unit_ns ? fraction * unit_ns : fraction * second_ns >> 32;

    if (seconds == ones32 || fraction == ones32 || fraction_ns >= second_ns)
        return false;
    *time_ns = seconds * second_ns + fraction_ns;
    return true;
}

static void read_wide_interfaces(const uint8_t *at, struct int_hop *hop)
{
    uint32_t ingress = get32(at), egress = get32(at + 4);

    if (hop->has & BIT_INTERFACES || (ingress | egress) > 0xffff)
        return; /* records have interfaces of 16 bits */
    hop->ingress = (uint16_t)ingress;
    hop->egress = (uint16_t)egress;
    hop->has |= BIT_INTERFACES;
}

static void read_node_id(uint8_t hop_limit, uint64_t node, uint64_t ones, struct int_hop *hop)
{
    if (hop_limit != 0xff) {
        hop->hop_limit = hop_limit;
        hop->has |= BIT_HOP_LIMIT;
    }
    if (node != ones && !(hop->has & BIT_NODE)) {
        hop->node = (uint32_t)node;
        hop->has |= BIT_NODE;
    }
}

static void read_word(uint16_t bit, uint32_t value, uint32_t *to, struct int_hop *hop)
{
    if (value == ones32)
        return;
    *to = value;
    hop->has |= bit;
}

static void read_field(uint32_t bit, const uint8_t *at, struct int_hop *hop)
{
    switch (bit) {
    case HOP_NODE: read_node_id(*at, get32(at) & 0xffffff, 0xffffff, hop); break;
    case HOP_NODE_WIDE: read_node_id(*at, get64(at) & ones56, ones56, hop); break;
    case INTERFACES:
        hop->ingress = get16(at);
        hop->egress = get16(at + 2);
        hop->has |= get32(at) == ones32 ? 0 : BIT_INTERFACES;
        break;
    case INTERFACES_WIDE: read_wide_interfaces(at, hop); break;
    case TRANSIT_DELAY: /* the highest bit says that the delay was too long */
        hop->latency_ns = get32(at);
        hop->has |= *at & 0x80 ? 0 : BIT_LATENCY;
        break;
    case QUEUE_DEPTH: read_word(BIT_QUEUE, get32(at), &hop->occupancy, hop); break;
    case BUFFER: read_word(BIT_BUFFER, get32(at), &hop->buffer_occupancy, hop); break;
    case CHECKSUM: read_word(BIT_LAST, get32(at), &hop->complement, hop); break;
    default: break;
    }
}

/* Adds the hop of one node. */
static struct int_hop *add_node(const struct decoder *decoder, uint32_t type, const uint8_t *at,
                                struct int_report *report)
{
    struct int_hop *hop = add_hop(decoder, report);
    uint32_t seconds = ones32, fraction = ones32;

    for (uint32_t left = type & ~(uint32_t)(OPAQUE | RESERVED); left;) {
        uint32_t bit = 1u << (31 - __builtin_clz(left));

        seconds = bit == SECONDS ? get32(at) : seconds;
        fraction = bit == FRACTION ? get32(at) : fraction;
        read_field(bit, at, hop);
        at += bit & WIDE ? 8 : 4;
        left &= ~bit;
    }
    if (read_time(decoder, seconds, fraction, &hop->ingress_ns)) {
        hop->has |= BIT_INGRESS;
        hop->egress_ns = hop->ingress_ns + hop->latency_ns;
        hop->has |= hop->has & BIT_LATENCY ? BIT_EGRESS : 0;
    }
    return hop;
}

/* Reads a trace option after its IOAM-Option-Type. Each node writes its data in front of those of
 * the node before it. `bytes` is the length of the option; the packet may be truncated. */
static enum parse_status read_trace(const struct decoder *decoder, struct span span, size_t bytes,
                                    struct int_report *report)
{
    const uint8_t *nodes[MAX_NODES];
    unsigned count = 0;
    size_t free_bytes, whole = left(span);
    uint32_t type;

    if (!has(span, TRACE_HEADER))
        return PARSE_IOAM_OPTION;
    type = report->trace_type = get32(span.at + 4) >> 8;
    report->ioam_flags = get16(span.at + 2) >> 7 & 0xf;
    free_bytes = report->ioam_type == IOAM_INCREMENTAL ? 0 : 4u * (span.at[3] & 0x7f);
    if (*(span.at + 2) >> 3 != node_words(type) || !(type & ~(uint32_t)RESERVED))
        return PARSE_NODE_LENGTH;
    if (TRACE_HEADER + free_bytes > bytes)
        return PARSE_REMAINING_LENGTH;
    for (span = rest(span, TRACE_HEADER + free_bytes); left(span);) {
        size_t node = node_bytes(type, span);

        if (!has(span, node))
            break;
        nodes[count++] = span.at;
        span = rest(span, node);
    }
    while (count)
        add_node(decoder, type, nodes[--count], report);
    if (whole < bytes)
        return PARSE_INT_CUT;
    return left(span) ? PARSE_STACK : PARSE_NONE;
}

static enum parse_status read_dex(struct span span, struct int_report *report)
{
    uint8_t flags;

    if (!has(span, DEX_HEADER))
        return PARSE_IOAM_OPTION;
    flags = span.at[3];
    span = rest(span, DEX_HEADER);
    if (flags & DEX_FLOW && has(span, 4)) {
        report->ioam_flow = get32(span.at);
        report->ioam_has |= IOAM_HAS_FLOW;
        span = rest(span, 4);
        flags ^= DEX_FLOW;
    }
    if (flags & DEX_SEQUENCE && has(span, 4)) {
        report->ioam_sequence = get32(span.at);
        report->ioam_has |= IOAM_HAS_SEQUENCE;
        flags ^= DEX_SEQUENCE;
    }
    return flags & (DEX_FLOW | DEX_SEQUENCE) ? PARSE_IOAM_OPTION : PARSE_NONE;
}

static enum parse_status read_e2e(const struct decoder *decoder, struct span span,
                                  struct int_report *report)
{
    unsigned type;
    uint32_t times[2] = {ones32, ones32};

    if (!has(span, E2E_HEADER))
        return PARSE_IOAM_OPTION;
    type = get16(span.at + 2);
    span = rest(span, E2E_HEADER);
    for (unsigned bit = E2E_SEQUENCE64; bit >= E2E_FRACTION; bit >>= 1) {
        size_t bytes = bit == E2E_SEQUENCE64 ? 8 : 4;

        if (!(type & bit))
            continue;
        if (!has(span, bytes))
            return PARSE_IOAM_OPTION;
        if (bit == E2E_SEQUENCE64 || (bit == E2E_SEQUENCE32 && !report->ioam_has)) {
            report->ioam_sequence = bytes == 8 ? get64(span.at) : get32(span.at);
            report->ioam_has |= IOAM_HAS_SEQUENCE;
        } else if (bit != E2E_SEQUENCE32) {
            times[bit == E2E_FRACTION] = get32(span.at);
        }
        span = rest(span, bytes);
    }
    if (read_time(decoder, times[0], times[1], &report->ioam_time_ns))
        report->ioam_has |= IOAM_HAS_TIME;
    return PARSE_NONE;
}

/* Finds the option of the report in a header of options, and reads it. Returns PARSE_IOAM_OPTION if
 * there is none. */
static enum parse_status read_options(const struct decoder *decoder, struct span span,
                                      struct int_report *report)
{
    while (left(span)) {
        size_t bytes;

        if (*span.at == PAD1) {
            span = rest(span, 1);
            continue;
        }
        if (!has(span, OPTION_HEAD))
            break;
        bytes = span.at[1];
        if ((*span.at == UNCHANGED || *span.at == CHANGEABLE) && bytes >= 4 && has(span, 6) &&
            span.at[3] == report->ioam_type && get16(span.at + 4) == report->ioam_namespace) {
            struct span data = rest(first(span, 2 + bytes), OPTION_HEAD);

            switch (report->ioam_type) {
            case IOAM_PREALLOCATED:
            case IOAM_INCREMENTAL: return read_trace(decoder, data, bytes - 2, report);
            case IOAM_E2E: return read_e2e(decoder, data, report);
            case IOAM_DEX: return read_dex(data, report);
            default: return PARSE_IOAM_OPTION;
            }
        }
        span = rest(span, 2 + bytes);
    }
    return PARSE_IOAM_OPTION;
}

/* Reads the option and the packet. If the packet is in a tunnel of the IOAM domain (RFC 2473), the
 * flow is that of the inner packet. */
static enum parse_status read_ioam_packet(const struct decoder *decoder, struct span packet,
                                          struct int_report *report)
{
    enum parse_status option = PARSE_IOAM_OPTION, status;
    struct span span = rest(packet, IPV6), inner = packet;
    uint8_t next = has(packet, IPV6) ? packet.at[NEXT_HEADER] : 0xff;
    uint8_t hop_limit = has(packet, IPV6) ? packet.at[NEXT_HEADER + 1] : 0;

    for (int i = 0; i < MAX_EXTENSIONS; i++) {
        size_t bytes;

        if ((next != HOP_BY_HOP && next != OPTIONS && next != ROUTING) || !has(span, 8))
            break;
        bytes = 8 + 8u * span.at[1];
        if (next != ROUTING && option == PARSE_IOAM_OPTION)
            option = read_options(decoder, rest(first(span, bytes), 2), report);
        next = *span.at;
        span = rest(span, bytes);
    }
    if (next == IPV6_IN_IPV6 && has(span, IPV6) && *packet.at >> 4 == 6)
        inner = span;
    status = read_packet(decoder, FIRST_IPV6, inner, report);
    report->ttl = hop_limit;
    if (report->ioam_type == IOAM_DEX && report->ioam_has & IOAM_HAS_SEQUENCE) {
        report->packet = (uint32_t)mix(mix(report->flow, report->ioam_flow), report->ioam_sequence);
        report->packet += !report->packet;
    }
    return option ? option : status;
}

/* Reads the main contents of a report, and the packet in the report. */
enum parse_status read_ioam(const struct decoder *decoder, struct span span, unsigned words,
                            struct int_report *report)
{
    struct span data = first(rest(span, FIXED), 4 * words);
    uint32_t type;
    struct int_hop *hop;

    if (!has(span, FIXED + 4 * words))
        return PARSE_METADATA_LENGTH;
    report->ioam_namespace = get16(span.at);
    report->ioam_type = span.at[3];
    type = report->trace_type = get32(span.at + 4) >> 8;
    if (node_bytes(type, data) != 4 * words)
        return PARSE_METADATA_LENGTH;
    report->parse_status = report->inner_type == FIRST_IPV6
        ? (uint8_t)read_ioam_packet(decoder, rest(span, FIXED + 4 * words), report)
        : PARSE_INNER_TYPE;
    if (!words)
        return PARSE_NONE;
    hop = add_node(decoder, type, data.at, report);
    hop->node = report->node;
    hop->has |= BIT_NODE;
    report->is_local = 1;
    return PARSE_NONE;
}
