/* Wire formats of INT v2.1 and Telemetry Report v2.0, in the order of their sections. */
#ifndef TELEMARK_INT_HEADERS_P4
#define TELEMARK_INT_HEADERS_P4

#include "../include/headers.p4"
#include "../include/telemetry_report.p4"

// INT types in the shim.
const bit<4> INT_MD = 1;
const bit<4> INT_MX = 3;
const bit<4> INT_VERSION = 2;

// Next protocol type in the shim (INT over TCP/UDP). It defines the meaning of the last 16 bits of
// the shim.
const bit<2> NPT_NONE = 0;  // the bits are the original DSCP (6 bits)
const bit<2> NPT_UDP = 1;   // the bits are the original UDP destination port
const bit<2> NPT_L4 = 2;    // INT has its own UDP header; the bits are the original IP protocol
const bit<2> NPT_UNDEFINED = 3;

const bit<64> PROBE_MARKER = 0x54454C454D41524B;  // "TELEMARK"

// Length of shim and INT header together in bytes. The second constant is the length of the INT
// header in words of 4 bytes, which is a part of the length in the shim.
const bit<16> INT_BYTES = 16;
const bit<8> INT_HEADER_WORDS = 3;

header tcp_options_t {
    varbit<320> options;
}

header int_marker_t {
    bit<64> marker;
}

header int_shim_t {
    bit<4> type;
    bit<2> npt;
    bit<2> reserved;
    bit<8> length;  // length of INT header and stack in words of 4 bytes
    bit<16> original;
}

header int_header_t {  // for INT-MD; in INT-MX, the bits after the first five are reserved
    bit<4> version;
    bit<1> discard;
    bit<1> hops_exceeded;
    bit<1> mtu_exceeded;
    bit<12> reserved;
    bit<5> hop_words;
    bit<8> remaining_hops;
    bit<16> instructions;
    bit<16> domain_id;
    bit<16> domain_instructions;
    bit<16> domain_flags;
}

header int_stack_t {  // metadata from earlier switches
    varbit<8064> words;  // 255 words minus the words of the header
}

header int_word_t {
    bit<32> value;
}

header int_long_t {
    bit<64> value;
}

header int_four_words_t {
    bit<128> value;
}

/* Metadata of one switch. Instruction bits 0 (0x8000) to 7 select the fields. */
struct int_metadata_t {
    int_word_t node_id;
    int_word_t level_1;
    int_word_t latency;
    int_word_t occupancy;
    int_long_t ingress_time;
    int_long_t egress_time;
    int_long_t level_2;
    int_word_t utilisation;
}

const bit<16> COMPLEMENT = 0x0001;   // meaning of bit 15 in stacks
const bit<16> UNKNOWN_TO_V1MODEL = 0x00FE;
const bit<16> DROP_REASON = 0x0001;  // meaning of bit 15 in reports
const bit<16> KNOWN_TO_REPORTS = 0x7F00;  // all except node id (in group header) and buffers
const bit<16> UTILISATION = 0x0100;
const bit<16> KNOWN_TO_INGRESS = 0x4A00;  // ports and arrival time
const bit<16> KNOWN_TO_QUEUES = 0x5A00;   // the same, and also the number of waiting packets

header report_t {  // one report, of RepType 1
    bit<4> type;
    bit<4> inner_type;
    bit<8> length;  // length of the report in words, without the first word
    bit<8> metadata_words;
    bit<1> dropped;
    bit<1> congested;
    bit<1> flow;
    bit<1> intermediate;
    bit<4> reserved;
    bit<16> metadata_bits;
    bit<16> domain_id;
    bit<16> domain_bits;
    bit<16> domain_status;
}

const bit<4> REPORT_OF_INT = 1;
// number of fixed words that follow the first word of a report
const bit<8> REPORT_FIXED_WORDS = 2;

/* Returns the length in words of the metadata with these instruction bits. A field has one word, or
 * two words if it has 8 bytes. */
bit<8> metadata_words(in bit<16> instructions) {
    bit<32> bits = instructions ++ (instructions & 0x0E00);
    bits = bits - ((bits >> 1) & 0x55555555);
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333);
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F;
    return (bits * 0x01010101)[31:24];
}

#endif
