/* Wire formats of DTA: Telemark's format, and that of the published prototype
 * (docs/reference/dta.md). */
#ifndef TELEMARK_DTA_HEADERS_P4
#define TELEMARK_DTA_HEADERS_P4

#include "../include/headers.p4"

#ifndef DTA_NACK_TRACKING  // prototype reporters: 1: with loss tracking; 0: without
#define DTA_NACK_TRACKING 1
#endif

// UDP destination ports of reports and NACKs.
const bit<16> PROTOTYPE_PORT = 40040;
const bit<16> DTA_PORT = 40042;
const bit<16> NACK_PORT = 40044;

@noWarn("unused") const bit<4> DTA_VERSION = 1;

// Opcodes.
const bit<8> KEY_WRITE = 0x01;
const bit<8> APPEND = 0x02;
const bit<8> KEY_INCREMENT = 0x03;
@noWarn("unused") const bit<8> POSTCARDING = 0x04;
@noWarn("unused") const bit<8> SKETCH_MERGE = 0x05;
@noWarn("unused") const bit<8> NACK = 0x80;

header dta_t {
    bit<4> version;
    bit<1> immediate;
    bit<1> retransmittable;
    bit<2> reserved;
    bit<8> opcode;
    bit<16> reporter;
    bit<32> sequence;
}

header prototype_t {
    bit<8> opcode;
#if DTA_NACK_TRACKING
    bit<8> sequence;
    bit<1> immediate;
    bit<1> retransmittable;
    bit<6> reserved;
#else
    bit<1> immediate;
    bit<7> reserved;
#endif
}

header key_write_t {
    bit<8> redundancy;
    bit<8> words;  // number of data words: 1, 3 or 7
    bit<16> reserved;
    bit<128> key;
}

header data_1_t {
    bit<32> words;
}

header data_3_t {
    bit<96> words;
}

header data_7_t {
    bit<224> words;
}

header append_t {
    bit<32> list;
    bit<32> data;
}

header key_increment_t {
    bit<8> redundancy;
    bit<24> reserved;
    bit<128> key;
    bit<64> addend;
}

header postcard_t {
    bit<8> redundancy;
    bit<8> hop;   // number of the hop; hops are numbered from 0
    bit<8> hops;  // number of hops of the path; 0 means unknown
    bit<8> reserved;
    bit<128> key;
    bit<32> value;
}

header sketch_merge_t {
    bit<16> sketch;
    bit<16> column;
    bit<32> row_0;
    bit<32> row_1;
    bit<32> row_2;
    bit<32> row_3;
}

header nack_t {  // follows dta_t; the field `sequence` of dta_t is the first missing number
    bit<32> count;
}

// Headers of the prototype. Append is the same as in Telemark's format.
header short_key_write_t {
    bit<8> redundancy;
    bit<32> key;
}

header short_key_increment_t {
    bit<8> redundancy;
    bit<32> key;
    bit<64> addend;
}

header short_postcard_t {
    bit<32> key;
    bit<8> hop;   // number of the hop; hops are numbered from 1
    bit<32> value;
}

header short_nack_t {  // has no base header
    bit<8> sequence;  // last number before the missing reports
    bit<1> nack;
    bit<7> reserved;
}

// UDP length for each kind of report. A packet with another length is not a report.
@noWarn("unused") const bit<16> KEY_WRITE_1_LENGTH = 40;
@noWarn("unused") const bit<16> KEY_WRITE_3_LENGTH = 48;
@noWarn("unused") const bit<16> KEY_WRITE_7_LENGTH = 64;
@noWarn("unused") const bit<16> APPEND_LENGTH = 24;
@noWarn("unused") const bit<16> KEY_INCREMENT_LENGTH = 44;
@noWarn("unused") const bit<16> POSTCARD_LENGTH = 40;
@noWarn("unused") const bit<16> SKETCH_MERGE_LENGTH = 36;
@noWarn("unused") const bit<16> SHORT_KEY_WRITE_1_LENGTH = 19 + DTA_NACK_TRACKING;
@noWarn("unused") const bit<16> SHORT_KEY_WRITE_3_LENGTH = 27 + DTA_NACK_TRACKING;
@noWarn("unused") const bit<16> SHORT_KEY_WRITE_7_LENGTH = 43 + DTA_NACK_TRACKING;
@noWarn("unused") const bit<16> SHORT_APPEND_LENGTH = 18 + DTA_NACK_TRACKING;
@noWarn("unused") const bit<16> SHORT_KEY_INCREMENT_LENGTH = 23 + DTA_NACK_TRACKING;
@noWarn("unused") const bit<16> SHORT_POSTCARD_LENGTH = 19 + DTA_NACK_TRACKING;
@noWarn("unused") const bit<16> NACK_LENGTH = 20;
@noWarn("unused") const bit<16> SHORT_NACK_LENGTH = 10;

#endif
