/* Decoder of Telemetry Reports 2.0 and 1.0: converts datagrams to records. */
#include "decoder.h"

enum {
    GROUP_HEADER = 8, REPORT_HEADER = 4, HEADER_1_0 = 16,
    FIXED = 8, /* length in bytes of the main contents, up to the metadata */
    TO_THE_END = 0xff,
    INNER_ONLY = 0, OF_INT = 1, /* RepType */
    /* more values of InType; enum first_header has the other values */
    NOTHING = 0, TLVS = 1, DS_EXTENSION = 2
};

static void note(const struct decoder *decoder, uint32_t datagram, uint32_t offset,
                 enum parse_status status)
{
    struct int_output *out = decoder->out;

    if (status)
        out->faults[out->faults_used++] = (struct int_fault){datagram, offset, (uint8_t)status, {0}};
}

/* Finds the first packet in a list of TLVs (TR, 3.3.2). */
static enum parse_status read_tlvs(const struct decoder *decoder, struct span span,
                              struct int_report *report)
{
    struct span packet = {NULL, NULL};
    unsigned type_of_packet = 0;

    while (left(span)) {
        unsigned type, bytes;

        if (!has(span, REPORT_HEADER))
            return PARSE_TLV_LENGTH;
        type = *span.at >> 4;
        bytes = span.at[1] * 4u;
        span = rest(span, REPORT_HEADER);
        if (!has(span, bytes))
            return PARSE_TLV_LENGTH;
        if (!packet.at && type >= 1 && type <= 3) {
            packet = first(span, bytes);
            type_of_packet = type + FIRST_ETHERNET - 1;
        }
        span = rest(span, bytes);
    }
    return packet.at ? read_packet(decoder, type_of_packet, packet, report) : PARSE_NONE;
}

static enum parse_status read_inner(const struct decoder *decoder, struct span span,
                               struct int_report *report)
{
    switch (report->inner_type) {
    case NOTHING:
    case DS_EXTENSION: return PARSE_NONE;
    case TLVS: return read_tlvs(decoder, span, report);
    case FIRST_ETHERNET:
    case FIRST_IPV4:
    case FIRST_IPV6: return read_packet(decoder, report->inner_type, span, report);
    default: return PARSE_INNER_TYPE;
    }
}

/* Adds a hop with the metadata that the reporting node wrote into the report. If the packet has a
 * stack, and the report has at most the node id, adds no hop. */
static void add_local(const struct decoder *decoder, struct layout layout, const uint8_t *at,
                      struct int_report *report)
{
    struct int_hop *hop;

    layout.bits &= (uint16_t)~BIT_LAST;
    if (report->hops && !(layout.bits & ~BIT_NODE))
        return;
    hop = add_hop(decoder, report);
    read_metadata(decoder, layout, at, hop);
    hop->node = report->node;
    hop->has |= BIT_NODE;
    hop->ds_words = report->ds_words;
    hop->ds_at = report->ds_at;
    report->is_local = 1;
}

static void read_drop(const uint8_t *at, struct int_report *report)
{
    report->queue = at[0];
    report->reason = at[1];
}

/* Reads the main contents of a report, and the packet in the report. */
static enum parse_status read_main(const struct decoder *decoder, struct span span, unsigned words,
                              struct int_report *report)
{
    struct layout layout = {0, FORMAT_2};
    const uint8_t *metadata = span.at + FIXED;
    unsigned baseline;

    if (!has(span, FIXED + 4 * words))
        return PARSE_METADATA_LENGTH;
    layout.bits = report->bits = get16(span.at);
    report->domain = get16(span.at + 2);
    report->ds_bits = get16(span.at + 4);
    report->ds_status = get16(span.at + 6);
    baseline = metadata_words(layout);
    if (words < baseline + (unsigned)__builtin_popcount(report->ds_bits) ||
        (words > baseline && !report->ds_bits))
        return PARSE_METADATA_LENGTH;
    report->ds_words = (uint16_t)(words - baseline);
    report->ds_at = place(decoder, metadata + 4 * baseline);
    if (layout.bits & BIT_LAST)
        read_drop(metadata + 4 * (baseline - 1), report);
    report->parse_status = (uint8_t)read_inner(decoder, rest(span, FIXED + 4 * words), report);
    add_local(decoder, layout, metadata, report);
    return PARSE_NONE;
}

static struct int_report *begin_report(const struct decoder *decoder, const struct int_group *group,
                                       const uint8_t *at)
{
    struct int_output *out = decoder->out;
    struct int_report *report = &out->reports[out->reports_used];

    *report = (struct int_report){
        .time_ns = group->time_ns, .group = out->groups_used, .node = group->node,
        .first_hop = out->hops_used, .at = place(decoder, at)};
    return report;
}

/* Adds the report, even if the packet in it has a parse error. */
static void end_report(const struct decoder *decoder, struct int_group *group,
                       const struct int_report *report, uint32_t offset)
{
    note(decoder, group->datagram, offset, report->parse_status);
    decoder->out->reports_used++;
    group->reports++;
}

/* Reads one report, which starts `offset` bytes after the start of its group. Advances `span` to
 * the end of the report. */
static enum parse_status read_report(const struct decoder *decoder, struct span *span, uint32_t offset,
                                struct int_group *group)
{
    const uint8_t *at = span->at;
    size_t bytes = at[1] * 4u;
    struct int_report *report = begin_report(decoder, group, at);
    struct span body = rest(*span, REPORT_HEADER);
    enum parse_status status = PARSE_NONE;

    /* TR, 3.3: Report Length 0xff means 255 words or more; such a report ends with the datagram */
    if (!has(body, bytes))
        return PARSE_REPORT_LENGTH;
    body = at[1] == TO_THE_END ? body : first(body, bytes);
    span->at = body.end;
    report->report_type = at[0] >> 4;
    report->inner_type = at[0] & 0xf;
    report->flags = at[3] >> 4;
    if (report->report_type == OF_INT)
        status = read_main(decoder, body, at[2], report);
    else if (report->report_type == OF_IOAM)
        status = read_ioam(decoder, body, at[2], report);
    else if (report->report_type == INNER_ONLY)
        report->parse_status = (uint8_t)read_inner(decoder, body, report);
    else
        status = PARSE_REPORT_TYPE;
    if (status) {
        decoder->out->hops_used = report->first_hop;
        return status;
    }
    end_report(decoder, group, report, offset);
    return PARSE_NONE;
}

static void read_group(const struct decoder *decoder, struct span span, struct int_group *group)
{
    const uint8_t *begin = span.at;
    uint32_t word = get32(begin);

    group->hw_id = word >> 22 & 0x3f;
    group->sequence = word & 0x3fffff;
    group->node = get32(begin + 4);
    span = rest(span, GROUP_HEADER);
    if (!left(span))
        note(decoder, group->datagram, GROUP_HEADER, PARSE_NO_REPORT);
    while (left(span)) {
        uint32_t offset = (uint32_t)(span.at - begin);
        enum parse_status status = has(span, REPORT_HEADER)
                                   ? read_report(decoder, &span, offset, group)
                                   : PARSE_TRAILING;

        note(decoder, group->datagram, offset, status);
        if (status == PARSE_REPORT_LENGTH || status == PARSE_TRAILING)
            return;
    }
}

/* Converts the six RepMdBits of version 1.0 to RepMdBits of 2.0, whose order is different. */
static uint16_t bits_of_1_0(unsigned bits)
{
    static const uint16_t in_order[] = {BIT_INTERFACES, BIT_LATENCY, BIT_QUEUE,
                                        BIT_EGRESS, BIT_LAST, BIT_UTILISATION};
    unsigned found = 0;

    for (unsigned i = 0; i < 6; i++)
        found |= bits & 0x20 >> i ? in_order[i] : 0u;
    return (uint16_t)found;
}

/* Returns the hop of the reporting node. It is the last hop of the stack, or a new hop. */
static struct int_hop *own_hop(const struct decoder *decoder, struct int_report *report)
{
    struct int_hop *last = &decoder->out->hops[decoder->out->hops_used - 1];

    if (report->hops && last->has & BIT_NODE && last->node == report->node)
        return last;
    report->is_local = 1;
    return add_hop(decoder, report);
}

/* Reads the header of TR 1.0 ("Telemetry Report Header"). A datagram has one report, and the rest
 * of the datagram is the reported packet. */
static enum parse_status read_1_0(const struct decoder *decoder, struct span span,
                             struct int_group *group)
{
    static const uint8_t first_headers[] = {FIRST_ETHERNET, FIRST_IPV4, FIRST_IPV6};
    const uint8_t *at = span.at + HEADER_1_0;
    unsigned header = (*span.at & 0xf) * 4u, next = span.at[1] >> 5;
    struct int_report *report = begin_report(decoder, group, span.at);
    struct layout before = {0, FORMAT_1}, after = {0, FORMAT_1};
    struct int_hop *hop;

    report->bits = bits_of_1_0(get32(span.at) >> 15 & 0x3f);
    before.bits = report->bits & (uint16_t)~(BIT_LAST | BIT_UTILISATION);
    after.bits = report->bits & BIT_UTILISATION;
    if (!has(span, header))
        return PARSE_REPORT_LENGTH;
    if (header != HEADER_1_0 + 4u * (unsigned)__builtin_popcount(report->bits))
        return PARSE_METADATA_LENGTH;
    report->report_type = OF_INT;
    report->flags = (uint8_t)((span.at[2] & 1 ? REPORT_DROPPED : 0) |
                              (span.at[3] & 0x80 ? REPORT_CONGESTED : 0) |
                              (span.at[3] & 0x40 ? REPORT_TRACKED : 0));
    report->inner_type = next < sizeof first_headers ? first_headers[next] : 0xff;
    report->parse_status = (uint8_t)read_inner(decoder, rest(span, header), report);
    hop = own_hop(decoder, report);
    read_metadata(decoder, before, at, hop);
    /* If BIT_INGRESS is set, the stack already contains this hop, possibly with more fields. */
    if (!(hop->has & BIT_INGRESS))
        read_metadata(decoder, (struct layout){BIT_INGRESS, FORMAT_1}, span.at + 12, hop);
    at += 4 * metadata_words(before);
    if (report->bits & BIT_LAST) {
        read_drop(at, report);
        at += 4;
    }
    read_metadata(decoder, after, at, hop);
    hop->node = report->node;
    hop->has |= BIT_NODE;
    end_report(decoder, group, report, 0);
    return PARSE_NONE;
}

/* Returns a hash that distinguishes datagrams with the same sequence number. It is never 0. It is
 * made of four interleaved hashes, because a single hash would have to wait for each
 * multiplication. */
static uint16_t hash_content(struct span span)
{
    uint64_t hash[4] = {left(span)};
    uint8_t last[32] = {0};

    for (; has(span, sizeof last); span = rest(span, sizeof last))
        for (unsigned i = 0; i < 4; i++)
            hash[i] = mix(hash[i], get64(span.at + 8 * i));
    memcpy(last, span.at, left(span));
    hash[0] = mix(hash[0], get64(last));
    for (unsigned i = 1; i < 4; i++)
        hash[0] = mix(hash[0] ^ hash[i], get64(last + 8 * i));
    return (uint16_t)(hash[0] >> 48) | 1;
}

static enum parse_status read_datagram(const struct decoder *decoder, struct span span,
                                  struct int_group *group)
{
    enum parse_status status = PARSE_NONE;

    if (!has(span, GROUP_HEADER))
        return PARSE_GROUP_HEADER;
    group->content = hash_content(span);
    group->version = *span.at >> 4;
    if (group->version == 2) {
        read_group(decoder, span, group);
    } else if (group->version == 1 && has(span, HEADER_1_0)) {
        group->hw_id = span.at[3] & 0x3f;
        group->node = get32(span.at + 4);
        group->sequence = get32(span.at + 8);
        status = read_1_0(decoder, span, group);
    } else {
        return group->version == 1 ? PARSE_GROUP_HEADER : PARSE_VERSION;
    }
    decoder->out->groups_used++;
    return status;
}

/* Returns whether the output has room for the maximum content of a datagram. Each report and each
 * hop takes at least one word. In addition, each report may add one hop. */
static bool fits(const struct int_output *out, uint32_t bytes)
{
    uint32_t words = bytes / 4 + 1;

    return out->groups_room > out->groups_used && out->reports_room - out->reports_used >= words &&
           out->hops_room - out->hops_used >= 2 * words &&
           out->faults_room - out->faults_used >= words;
}

/* Decodes datagrams until the output is full. Returns the number of decoded datagrams, and sets
 * *bytes_read to their total size. `out` must have room for at least one datagram of 65,535
 * bytes. */
uint32_t int_decode(const struct int_settings *settings, const struct int_input *in,
                    struct int_output *out, uint64_t *bytes_read)
{
    struct decoder decoder = {settings, out, in->bytes};
    const uint8_t *next = in->bytes;
    uint32_t done = 0;

    for (; done < in->count && fits(out, in->arrivals[done].length); done++) {
        const struct arrival_record *arrival = &in->arrivals[done];
        struct int_group *group = &out->groups[out->groups_used];
        enum parse_status status;

        *group = (struct int_group){.time_ns = arrival->time_ns, .datagram = done,
                                    .reporter = __builtin_bswap32(arrival->address)};
        status = read_datagram(&decoder, (struct span){next, next + arrival->length}, group);
        note(&decoder, done, 0, status);
        next += arrival->length;
    }
    *bytes_read = (uint64_t)(next - in->bytes);
    return done;
}
