/* Metadata in a report, or in a hop of a stack. A bitmap says which fields exist. */
#include "decoder.h"

enum { ONES16 = 0xffff, ONES24 = 0xffffff, ONES8 = 0xff };
static const uint32_t ones32 = 0xffffffff;

/* Returns the length of metadata in 4-byte words. A reserved bit also takes a word (INT, 5.7). */
unsigned metadata_words(struct layout layout)
{
    static const unsigned wide[] = {
        [FORMAT_2] = BIT_INGRESS | BIT_EGRESS | BIT_INTERFACES2,
        [FORMAT_1] = BIT_INTERFACES2,
        [FORMAT_1_LONG_TIMES] = BIT_INGRESS | BIT_EGRESS,
    };
    unsigned words = (unsigned)__builtin_popcount(layout.bits);

    return words + (unsigned)__builtin_popcount(layout.bits & wide[layout.format]);
}

/* Reads a time of 64 or 32 bits, in nanoseconds. Returns false if all bits are ones, or if the time
 * is too large. */
static bool read_time(struct layout layout, const uint8_t *at, uint64_t unit_ns, uint64_t *time_ns)
{
    bool is_short = layout.format == FORMAT_1;
    uint64_t value = is_short ? get32(at) : get64(at);

    if (value == (is_short ? ones32 : ~(uint64_t)0))
        return false;
    return !__builtin_mul_overflow(value, unit_ns, time_ns);
}

static bool read_latency(const uint8_t *at, uint64_t unit_ns, uint64_t *latency_ns)
{
    *latency_ns = get32(at) * unit_ns;
    return get32(at) != ones32;
}

static bool read_two(const uint8_t *at, uint16_t *ingress, uint16_t *egress)
{
    *ingress = get16(at);
    *egress = get16(at + 2);
    return get32(at) != ones32;
}

static bool read_level2(struct layout layout, const uint8_t *at, uint32_t *ingress, uint32_t *egress)
{
    if (layout.format == FORMAT_1_LONG_TIMES) {
        *ingress = get16(at);
        *egress = get16(at + 2);
        return get32(at) != ones32;
    }
    *ingress = get32(at);
    *egress = get32(at + 4);
    return get64(at) != ~(uint64_t)0;
}

static bool read_word(const uint8_t *at, uint32_t *word)
{
    *word = get32(at);
    return *word != ones32;
}

static bool read_occupancy(const uint8_t *at, uint8_t *which, uint32_t *occupancy)
{
    *which = *at;
    *occupancy = get32(at) & ONES24;
    return get32(at) != ones32;
}

static bool read_one(const struct decoder *decoder, struct layout layout, unsigned bit,
                     const uint8_t *at, struct int_hop *hop)
{
    const struct int_settings *settings = decoder->settings;
    bool is_version1 = layout.format != FORMAT_2;
    uint64_t unit_ns = is_version1 ? 1 : settings->timestamp_ns; /* TR 1.0 uses nanoseconds */

    switch (bit) {
    case BIT_NODE: return read_word(at, &hop->node);
    case BIT_INTERFACES: return read_two(at, &hop->ingress, &hop->egress);
    case BIT_LATENCY: return read_latency(at, settings->latency_ns, &hop->latency_ns);
    case BIT_QUEUE: return read_occupancy(at, &hop->queue, &hop->occupancy);
    case BIT_INGRESS: return read_time(layout, at, unit_ns, &hop->ingress_ns);
    case BIT_EGRESS: return read_time(layout, at, unit_ns, &hop->egress_ns);
    case BIT_INTERFACES2: return read_level2(layout, at, &hop->ingress2, &hop->egress2);
    case BIT_UTILISATION: return read_word(at, &hop->utilisation);
    case BIT_BUFFER: /* reserved in 1.0 */
        return !is_version1 && read_occupancy(at, &hop->buffer, &hop->buffer_occupancy);
    default: return false; /* reserved in this version, or the caller handles it */
    }
}

/* Reads metadata, whose length is metadata_words(). */
void read_metadata(const struct decoder *decoder, struct layout layout, const uint8_t *at,
                   struct int_hop *hop)
{
    for (unsigned left = layout.bits; left;) {
        unsigned bit = 1u << (31 - __builtin_clz(left));

        if (read_one(decoder, layout, bit, at, hop))
            hop->has |= (uint16_t)bit;
        at += 4 * metadata_words((struct layout){(uint16_t)bit, layout.format});
        left &= ~bit;
    }
}

/* Adds a hop to a report: the next hop in the direction of the sink. */
struct int_hop *add_hop(const struct decoder *decoder, struct int_report *report)
{
    struct int_output *out = decoder->out;
    struct int_hop *hop = &out->hops[out->hops_used++];

    *hop = (struct int_hop){.report = out->reports_used};
    report->hops++;
    return hop;
}
