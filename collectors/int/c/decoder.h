/* The parts of the decoder, from the outside of a datagram to its inside. */
#ifndef COLLECTORS_INT_DECODER_H
#define COLLECTORS_INT_DECODER_H

#include "arrival.h"
#include "numbers.h"
#include "records.h"
#include "span.h"

struct decoder {
    const struct int_settings *settings;
    struct int_output *out;
    const uint8_t *bytes; /* all that were given */
};

/* INT and Telemetry Report 2.x; 1.0, whose timestamps have 32 bits; and GEANT's 1.0: 64 bits, and
 * level 2 interfaces of 16 bits. */
enum format { FORMAT_2, FORMAT_1, FORMAT_1_LONG_TIMES };

/* How long the metadata are that a bitmap stands for, and how to read them. */
struct layout {
    uint16_t bits;
    enum format format;
};

/* Which protocol a packet begins with; the numbers are those of InType (TR, 3.3). */
enum first_header { FIRST_ETHERNET = 3, FIRST_IPV4 = 4, FIRST_IPV6 = 5 };

static inline uint32_t place(const struct decoder *decoder, const uint8_t *at)
{
    return (uint32_t)(at - decoder->bytes);
}

/* Mixes a word into a hash. */
static inline uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9fb21c651e98df25u;
    return hash ^ hash >> 32;
}

uint64_t hash_key(const struct int_key *key, uint64_t seed);
unsigned metadata_words(struct layout layout);
void read_metadata(const struct decoder *decoder, struct layout layout, const uint8_t *at,
                   struct int_hop *hop);
struct int_hop *add_hop(const struct decoder *decoder, struct int_report *report);
enum parse_status read_packet(const struct decoder *decoder, enum first_header first, struct span span,
                         struct int_report *report);

/* A packet after its shim and INT header; `port` is 0 unless the shim has the original one, and
 * `protocol` that of the header that follows, or 0: what follows is payload. */
struct after_int {
    struct span span;
    uint16_t port;
    uint8_t protocol;
};

enum parse_status read_int(const struct decoder *decoder, struct span span, bool by_port,
                      struct int_report *report, struct after_int *after);

#endif
