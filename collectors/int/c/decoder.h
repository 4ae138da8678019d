/* Parts of the decoder, from the outermost header to the innermost. */
#ifndef COLLECTORS_INT_DECODER_H
#define COLLECTORS_INT_DECODER_H

#include "arrival.h"
#include "numbers.h"
#include "records.h"
#include "span.h"

struct decoder {
    const struct int_settings *settings;
    struct int_output *out;
    const uint8_t *bytes; /* start of the input */
};

/* Formats: INT and Telemetry Report 2.x; version 1.0 with 32-bit timestamps; and GEANT's variant of
 * 1.0, with 64-bit timestamps and 16-bit level 2 interfaces. */
enum format { FORMAT_2, FORMAT_1, FORMAT_1_LONG_TIMES };

/* Format of metadata; a bitmap says which fields exist. */
struct layout {
    uint16_t bits;
    enum format format;
};

/* First protocol of a packet. The numbers are those of InType (TR, 3.3). */
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

enum { OF_IOAM = 2 }; /* RepType */
enum parse_status read_ioam(const struct decoder *decoder, struct span span, unsigned words,
                            struct int_report *report);

/* The part of a packet that follows the shim and the INT header. `port` is the original port, or 0
 * if the shim has none. `protocol` is the protocol of the next header, or 0 if payload follows. */
struct after_int {
    struct span span;
    uint16_t port;
    uint8_t protocol;
};

enum parse_status read_int(const struct decoder *decoder, struct span span, bool by_port,
                      struct int_report *report, struct after_int *after);

#endif
