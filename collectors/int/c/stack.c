/* INT headers and stacks that follow TCP or UDP in packets (INT, 5.6.2, 5.7 and 5.8). */
#include "decoder.h"

enum { SHIM = 4, HEADER_WORDS = 3, HEADER_WORDS_1_0 = 2 };
enum { NEXT_PORT = 1, NEXT_PROTOCOL = 2 }; /* NPT */

/* A stack: the length that the shim gives, and the bytes that are available. */
struct stack {
    struct span span;
    unsigned words;
    struct layout layout;
};

/* Reads the metadata of a hop: first baseline metadata, then domain specific metadata, then the
 * checksum complement (INT, 5.7). */
static void read_hop(const struct decoder *decoder, struct layout layout, const uint8_t *at,
                     struct int_report *report)
{
    struct int_hop *hop = add_hop(decoder, report);
    struct layout before = {(uint16_t)(layout.bits & ~BIT_LAST), layout.format};

    read_metadata(decoder, before, at, hop);
    hop->ds_words = (uint16_t)(report->hop_words - metadata_words(layout));
    hop->ds_at = place(decoder, at + 4 * metadata_words(before));
    if (layout.bits & BIT_LAST) {
        hop->complement = get32(at + 4 * (report->hop_words - 1));
        hop->has |= hop->complement == 0xffffffff ? 0 : BIT_LAST;
    }
}

/* Reads a stack. Each node inserts its metadata at the front, so the metadata of the source are
 * last. After them come metadata that only the source inserts. If the packet is truncated, the
 * oldest hops are missing. */
static enum parse_status read_stack(const struct decoder *decoder, struct stack stack,
                               struct int_report *report)
{
    unsigned baseline = metadata_words(stack.layout), words = report->hop_words;
    unsigned hops = words ? stack.words / words : 0, over = stack.words - hops * words;
    unsigned whole = words ? (unsigned)left(stack.span) / 4 / words : 0;

    if (words < baseline || (words > baseline && !report->int_ds_bits))
        return PARSE_HOP_LENGTH;
    if (over && !report->int_ds_bits)
        return PARSE_STACK;
    for (unsigned i = hops < whole ? hops : whole; i-- > 0;)
        read_hop(decoder, stack.layout, stack.span.at + 4 * words * i, report);
    if (!has(stack.span, 4 * stack.words))
        return PARSE_INT_CUT;
    report->int_ds_words = (uint16_t)over;
    report->int_ds_at = place(decoder, stack.span.at + 4 * hops * words);
    return PARSE_NONE;
}

/* Reads the header without its stack. */
static void read_header(const uint8_t *at, struct int_report *report)
{
    report->int_version = *at >> 4;
    report->int_bits = get16(at + 4);
    if (report->int_version == 1) { /* Ver(4) Rep(2) C E M */
        report->int_flags = (uint8_t)((*at & 1 ? INT_HOPS_EXCEEDED : 0) |
                                      (at[1] & 0x80 ? INT_MTU_EXCEEDED : 0));
    } else { /* Ver(4) D E M; INT-MX has only D */
        report->int_flags = *at >> 1 & (report->int_type == INT_MX ? INT_DISCARD : 7);
        report->int_domain = get16(at + 6);
        report->int_ds_bits = get16(at + 8);
        report->int_ds_flags = get16(at + 10);
    }
    if (report->int_type == INT_MD) {
        report->hop_words = at[2] & 0x1f;
        report->remaining_hops = at[3];
    }
}

/* Reads the shim. In version 1.0, Type has 8 bits, and Length includes the shim. Returns the number
 * of words that follow the shim. */
static unsigned read_shim(const uint8_t *at, struct int_report *report)
{
    bool is_version1 = *at == INT_MD; /* since version 2.0, the type is only the upper four bits */

    report->int_type = is_version1 ? INT_MD : *at >> 4;
    report->int_version = is_version1 ? 1 : 2; /* the version in the INT header must be the same */
    if (is_version1)
        return at[2] ? at[2] - 1u : 0;
    return at[1];
}

/* Reads the fields of the shim that describe the original packet. NPT is 0, unless INT was
 * recognized by a port. */
static bool read_next(const uint8_t *at, bool by_port, struct int_report *report,
                      struct after_int *after)
{
    unsigned next = report->int_version == 1 ? 0 : *at >> 2 & 3;

    if (by_port && next == NEXT_PORT)
        after->port = get16(at + 2);
    else if (by_port && next == NEXT_PROTOCOL)
        after->protocol = at[3];
    else if (!by_port && !next)
        report->original_dscp = at[3] >> 2;
    else
        return false;
    return true;
}

static enum format int_format(const struct decoder *decoder, const struct int_report *report)
{
    if (report->int_version != 1)
        return FORMAT_2;
    return decoder->settings->long_times ? FORMAT_1_LONG_TIMES : FORMAT_1;
}

/* Reads an INT header and its stack. They have `words` words, but may be truncated. */
static enum parse_status read_int_header(const struct decoder *decoder, struct span span, unsigned words,
                                    struct int_report *report)
{
    unsigned header_words = report->int_version == 1 ? HEADER_WORDS_1_0 : HEADER_WORDS;
    struct stack stack;

    if (words < header_words)
        return PARSE_INT_LENGTH;
    if (!has(span, 4 * header_words))
        return PARSE_INT_CUT;
    if (*span.at >> 4 != report->int_version)
        return PARSE_INT_VERSION;
    read_header(span.at, report);
    stack.span = rest(span, 4 * header_words);
    stack.words = words - header_words;
    stack.layout = (struct layout){report->int_bits, int_format(decoder, report)};
    if (report->int_type == INT_MD)
        return read_stack(decoder, stack, report);
    /* after the stack, only metadata that the source inserts are allowed (INT, 5.8) */
    if (stack.words && !report->int_ds_bits)
        return PARSE_STACK;
    if (!has(stack.span, 4 * stack.words))
        return PARSE_INT_CUT;
    report->int_ds_words = (uint16_t)stack.words;
    report->int_ds_at = place(decoder, stack.span.at);
    return PARSE_NONE;
}

/* Reads INT headers, from the shim on. `by_port` means that INT was recognized by a UDP port, so
 * NPT is valid. */
enum parse_status read_int(const struct decoder *decoder, struct span span, bool by_port,
                      struct int_report *report, struct after_int *after)
{
    unsigned words;

    *after = (struct after_int){.span = {span.end, span.end}};
    if (!has(span, SHIM))
        return PARSE_INT_CUT;
    words = read_shim(span.at, report);
    if (report->int_type != INT_MD && report->int_type != INT_MX)
        return PARSE_SHIM;
    if (!read_next(span.at, by_port, report, after))
        return PARSE_SHIM;
    after->span = rest(span, SHIM + 4 * words);
    return read_int_header(decoder, first(rest(span, SHIM), 4 * words), words, report);
}
