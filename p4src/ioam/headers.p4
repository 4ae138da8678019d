/* Wire formats of IOAM in IPv6 hop-by-hop options: RFC 9197 (options and node data), RFC 9322
 * (flags), RFC 9326 (direct export), RFC 9486 (IPv6), and the report that Telemark defines in
 * collectors/ioam/options.py. */
#ifndef TELEMARK_IOAM_HEADERS_P4
#define TELEMARK_IOAM_HEADERS_P4

#include "../include/headers.p4"
#include "../include/telemetry_report.p4"

// IPv6 option types.
const bit<8> PAD_1 = 0x00;
const bit<8> PAD_N = 0x01;
const bit<8> IOAM_UNCHANGED = 0x11;   // the option does not change on the path
const bit<8> IOAM_CHANGEABLE = 0x31;

// A PadN option of four bytes. It follows a trace option that has an odd number of words.
const bit<32> PAD_OF_4 = 0x01020000;

// IOAM option types.
const bit<8> PREALLOCATED = 0;
const bit<8> INCREMENTAL = 1;
const bit<8> EDGE_TO_EDGE = 3;
const bit<8> DIRECT_EXPORT = 4;

header hop_by_hop_t {
    bit<8> next_header;
    bit<8> length;  // in units of eight bytes, without the first eight
}

header option_t {  // any option; Pad1 has no `rest`
    bit<8> type;
    varbit<2048> rest;
}

header trace_option_t {  // the fixed part of a trace option
    bit<8> option_type;
    bit<8> option_length;  // bytes after this field
    bit<8> reserved;
    bit<8> type;           // PREALLOCATED or INCREMENTAL
    bit<16> namespace_id;
    bit<5> node_words;     // NodeLen
    bit<1> overflow;
    bit<1> loopback;
    bit<1> active;
    bit<1> undefined;
    bit<7> remaining;      // RemainingLen, in words of four bytes
    bit<24> trace_type;
    bit<8> last_reserved;
}

// Bytes of a trace option without node data. The constants without `OPTION` are option lengths.
const bit<8> TRACE_OPTION_BYTES = 12;
const bit<8> TRACE_BYTES = 10;

header trace_words_t {  // a part of the node data list
    varbit<1984> words;
}

header e2e_option_t {
    bit<8> option_type;
    bit<8> option_length;
    bit<8> reserved;
    bit<8> type;
    bit<16> namespace_id;
    bit<16> e2e_type;
}

header option_data_t {  // the rest of an E2E or DEX option as it came
    varbit<2040> bytes;
}

header dex_option_t {
    bit<8> option_type;
    bit<8> option_length;
    bit<8> reserved;
    bit<8> type;
    bit<16> namespace_id;
    bit<8> flags;
    bit<8> extension_flags;
    bit<24> trace_type;
    bit<8> last_reserved;
}

header byte_t {
    bit<8> value;
}

header pad_n_t {
    bit<8> type;
    bit<8> length;
}

header half_word_t {
    bit<16> value;
}

header word_t {
    bit<32> value;
}

header long_t {
    bit<64> value;
}

header four_words_t {
    bit<128> value;
}

header eight_words_t {
    bit<256> value;
}

header sixteen_words_t {
    bit<512> value;
}

header thirty_two_words_t {
    bit<1024> value;
}

/* Zeros: the free space in a pre-allocated trace option that this switch inserts. */
struct free_space_t {
    word_t of_1;
    long_t of_2;
    four_words_t of_4;
    eight_words_t of_8;
    sixteen_words_t of_16;
    thirty_two_words_t of_32;
}

/* Node data of one node, in the order of the bits of IOAM-Trace-Type. */
struct node_data_t {
    word_t hop_node;
    word_t interfaces;
    word_t seconds;
    word_t fraction;
    word_t transit_delay;
    word_t namespace_data;
    word_t queue_depth;
    word_t checksum;
    long_t hop_node_wide;
    long_t interfaces_wide;
    long_t namespace_data_wide;
    word_t buffer_occupancy;
    // undefined bits 12 to 21: up to ten words, in which all bits are ones
    word_t undefined_1;
    long_t undefined_2;
    four_words_t undefined_4;
    eight_words_t undefined_8;
    word_t opaque;
}

/* Data of an E2E option, in the order of the bits of IOAM-E2E-Type. */
struct e2e_data_t {
    long_t sequence_64;
    word_t sequence_32;
    word_t seconds;
    word_t fraction;
}

// Bits of IOAM-Trace-Type. The RFC counts from the most significant of 24 bits.
const bit<24> OPAQUE = 0x000002;       // bit 22
const bit<24> UNDEFINED = 0x000FFC;    // bits 12 to 21
const bit<24> WIDE = 0x00E000;         // bits 8 to 10: fields of eight bytes
const bit<24> TYPE_RESERVED = 0x000001;
const bit<24> HOP_NODE = 0x800000;     // bit 0, the only one with the loopback flag

// Bits of IOAM-E2E-Type.
const bit<16> SEQUENCE_64 = 0x8000;
const bit<16> SEQUENCE_32 = 0x4000;
const bit<16> E2E_SECONDS = 0x2000;
const bit<16> E2E_FRACTION = 0x1000;

// Extension-Flags of a DEX option.
const bit<8> DEX_FLOW = 0x80;
const bit<8> DEX_SEQUENCE = 0x40;

header ioam_report_t {
    bit<4> type;
    bit<4> inner_type;
    bit<8> length;      // words after the first word
    bit<8> data_words;  // words of node data
    bit<1> dropped;
    bit<1> congested;
    bit<1> flow;
    bit<5> reserved;
    bit<16> namespace_id;
    bit<8> unused;
    bit<8> option_type;
    bit<24> trace_type;
    bit<8> last_unused;
}

const bit<4> REPORT_OF_IOAM = 2;

/* Returns NodeLen of a trace type: the number of words, without the opaque state snapshot. */
bit<8> node_words(in bit<24> trace_type) {
    bit<24> type = trace_type & ~(OPAQUE | TYPE_RESERVED);
    bit<32> bits = type[23:12] ++ (type & WIDE)[15:13] ++ 7w0 ++ type[11:2];
    bits = bits - ((bits >> 1) & 0x55555555);
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333);
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F;
    return (bits * 0x01010101)[31:24];
}

#endif
