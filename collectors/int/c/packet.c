/* The packet in a report: its flow key, and its INT headers if it has any. */
#include "decoder.h"

enum {
    ETHERNET = 14, IPV4 = 20, IPV6 = 40, UDP = 8, TCP = 20, VLAN_TAG = 4,
    MAX_TAGS = 2, MAX_EXTENSIONS = 8, /* maximum number of IPv6 extension headers */
    TYPE_VLAN = 0x8100, TYPE_SERVICE_VLAN = 0x88a8, TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd,
    PROTOCOL_TCP = 6, PROTOCOL_UDP = 17, PROTOCOL_SCTP = 132,
    HOP_BY_HOP = 0, ROUTING = 43, FRAGMENT = 44, OPTIONS = 60,
    PROBE_MARKER = 8,
    /* number of payload bytes that are hashed if headers do not distinguish the packets of a
     * flow */
    PAYLOAD_HASHED = 16
};

/* Headers that follow the IP header. */
struct above_ip {
    struct span span;
    unsigned protocol;
    uint32_t id;     /* Identification, if the header has one */
    bool has_ports; /* false for fragments other than the first */
};

uint64_t hash_key(const struct int_key *key, uint64_t seed)
{
    uint64_t words[sizeof *key / 8], hash = seed;

    _Static_assert(sizeof *key % 8 == 0, "the key is hashed in words");
    memcpy(words, key, sizeof words);
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        hash = mix(hash, words[i]);
    return hash;
}

/* Hashes those fields that distinguish the packets of a flow and that are the same at all nodes.
 * Fields that routers or INT change are not hashed. Fields that short reports lack are not hashed
 * either. */
static void note_packet(const struct above_ip *above, struct span payload, struct int_report *report)
{
    bool is_tcp = report->key.protocol == PROTOCOL_TCP && has(above->span, 8);
    uint64_t hash = mix(report->flow, above->id);

    if (is_tcp)
        hash = mix(hash, get32(above->span.at + 4)); /* Sequence Number */
    else if (!above->id && has(payload, PAYLOAD_HASHED))
        hash = mix(mix(hash, get64(payload.at)), get64(payload.at + 8));
    else if (!above->id)
        return;
    report->packet = (uint32_t)hash ? (uint32_t)hash : 1;
}

/* Reads the ports, and finds the payload. If the packet ends in front of the payload, the payload
 * is null. */
static enum parse_status read_ports(struct above_ip *above, struct int_report *report,
                               struct span *payload)
{
    struct int_key *key = &report->key;
    struct span span = above->span;
    unsigned header = UDP;

    *payload = (struct span){NULL, NULL};
    key->protocol = (uint8_t)above->protocol;
    if (!above->has_ports || (key->protocol != PROTOCOL_TCP && key->protocol != PROTOCOL_UDP &&
                              key->protocol != PROTOCOL_SCTP))
        return PARSE_NONE;
    if (!has(span, 4))
        return PARSE_PACKET_CUT;
    key->source_port = get16(span.at);
    key->destination_port = get16(span.at + 2);
    if (key->protocol == PROTOCOL_SCTP)
        return PARSE_NONE;
    if (key->protocol == PROTOCOL_TCP) {
        header = has(span, TCP) ? (span.at[12] >> 4) * 4u : 0; /* Data Offset */
        if (header < TCP)
            return PARSE_NONE;
    }
    if (has(span, header))
        *payload = rest(span, header);
    return PARSE_NONE;
}

/* Returns whether INT follows TCP or UDP (INT, 5.6.2). `by_port` becomes true if the UDP port
 * indicates INT, and false if the DSCP or the probe marker does. */
static bool has_int(const struct decoder *decoder, const struct int_report *report,
                    struct span *payload, bool *by_port)
{
    const struct int_settings *settings = decoder->settings;

    *by_port = settings->port && report->key.protocol == PROTOCOL_UDP &&
               report->key.destination_port == settings->port;
    /* TR, 3.4: a report may contain only the headers of a packet. A report of an IOAM option does
     * not also describe the INT stack. */
    if (!(report->flags & REPORT_TRACKED) || report->report_type == OF_IOAM || !left(*payload))
        return false;
    if (*by_port)
        return true;
    if (settings->marker && has(*payload, PROBE_MARKER) &&
        get64(payload->at) == settings->marker) {
        *payload = rest(*payload, PROBE_MARKER);
        return true;
    }
    return settings->dscp_mask && !((report->dscp ^ settings->dscp) & settings->dscp_mask);
}

static enum parse_status read_above(const struct decoder *decoder, struct above_ip above,
                               struct int_report *report)
{
    struct span payload;
    enum parse_status status = read_ports(&above, report, &payload), int_status;
    struct after_int after;
    bool by_port;

    if (!status && has_int(decoder, report, &payload, &by_port)) {
        status = read_int(decoder, payload, by_port, report, &after);
        payload = after.span;
        if (after.port)
            report->key.destination_port = after.port;
        if (after.protocol) { /* INT inserted a UDP header before the original header */
            int_status = status;
            report->key.source_port = report->key.destination_port = 0;
            above.span = after.span;
            above.protocol = after.protocol;
            status = read_ports(&above, report, &payload);
            status = int_status ? int_status : status;
        }
    }
    report->flow = hash_key(&report->key, 0);
    report->flow += !report->flow;
    if (above.has_ports)
        note_packet(&above, payload, report);
    return status;
}

static enum parse_status read_ipv4(const struct decoder *decoder, struct span span,
                              struct int_report *report)
{
    struct above_ip above = {.has_ports = true};
    unsigned header;

    if (!has(span, IPV4))
        return PARSE_PACKET_CUT;
    header = (*span.at & 0xf) * 4;
    report->ip_length = get16(span.at + 2);
    if (*span.at >> 4 != 4 || header < IPV4 || report->ip_length < header)
        return PARSE_IP_HEADER;
    report->key.ip_version = 4;
    memcpy(report->key.source, span.at + 12, 4);
    memcpy(report->key.destination, span.at + 16, 4);
    report->dscp = span.at[1] >> 2;
    report->ttl = span.at[8];
    above.protocol = span.at[9];
    above.id = get16(span.at + 4);
    above.has_ports = !(get16(span.at + 6) & 0x1fff); /* Fragment Offset */
    above.span = rest(first(span, report->ip_length), header);
    return read_above(decoder, above, report);
}

/* Skips extension headers (RFC 8200, 4). */
static bool skip_extensions(struct above_ip *above)
{
    for (int i = 0; i < MAX_EXTENSIONS; i++) {
        size_t bytes = 8;

        if (above->protocol != HOP_BY_HOP && above->protocol != ROUTING &&
            above->protocol != FRAGMENT && above->protocol != OPTIONS)
            return true;
        if (!has(above->span, bytes))
            return false;
        if (above->protocol == FRAGMENT) {
            above->id = get32(above->span.at + 4);
            above->has_ports = !(get16(above->span.at + 2) & 0xfff8);
        } else {
            bytes += above->span.at[1] * 8u;
        }
        above->protocol = *above->span.at;
        above->span = rest(above->span, bytes);
        if (!above->has_ports) /* In a fragment other than the first, payload follows. */
            return true;
    }
    return false;
}

static enum parse_status read_ipv6(const struct decoder *decoder, struct span span,
                              struct int_report *report)
{
    struct above_ip above = {.has_ports = true};
    bool is_whole;
    enum parse_status status;

    if (!has(span, IPV6))
        return PARSE_PACKET_CUT;
    if (*span.at >> 4 != 6)
        return PARSE_IP_HEADER;
    report->ip_length = get16(span.at + 4);
    report->key.ip_version = 6;
    memcpy(report->key.source, span.at + 8, 16);
    memcpy(report->key.destination, span.at + 24, 16);
    report->dscp = (uint8_t)(get16(span.at) >> 6 & 0x3f);
    report->ttl = span.at[7];
    above.protocol = span.at[6];
    above.span = first(rest(span, IPV6), report->ip_length);
    is_whole = skip_extensions(&above);
    if (!is_whole)
        above.has_ports = false;
    status = read_above(decoder, above, report);
    return is_whole ? status : PARSE_PACKET_CUT;
}

static enum parse_status read_ethernet(const struct decoder *decoder, struct span span,
                                  struct int_report *report)
{
    unsigned type;

    if (!has(span, ETHERNET))
        return PARSE_PACKET_CUT;
    type = get16(span.at + ETHERNET - 2);
    span = rest(span, ETHERNET);
    for (int i = 0; i < MAX_TAGS && (type == TYPE_VLAN || type == TYPE_SERVICE_VLAN); i++) {
        if (!has(span, VLAN_TAG))
            return PARSE_PACKET_CUT;
        type = get16(span.at + 2);
        span = rest(span, VLAN_TAG);
    }
    if (type == TYPE_IPV4)
        return read_ipv4(decoder, span, report);
    return type == TYPE_IPV6 ? read_ipv6(decoder, span, report) : PARSE_NONE;
}

/* Reads a packet, which may be truncated. */
enum parse_status read_packet(const struct decoder *decoder, enum first_header first, struct span span,
                         struct int_report *report)
{
    switch (first) {
    case FIRST_IPV4: return read_ipv4(decoder, span, report);
    case FIRST_IPV6: return read_ipv6(decoder, span, report);
    default: return read_ethernet(decoder, span, report);
    }
}
