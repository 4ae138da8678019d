/* A packet as a reporter sees it, and the report that is put in front of the copy of one. */
#ifndef TELEMARK_DTA_REPORTER_PACKET_P4
#define TELEMARK_DTA_REPORTER_PACKET_P4

#include "../include/headers.p4"

const bit<16> DTA_PORT = 40042;            // UDP's, of reports in our format
const bit<16> DTA_PROTOTYPE_PORT = 40040;  // of those in the prototype's
const bit<16> DTA_NACK_PORT = 40044;

@noWarn("unused") const bit<4> DTA_VERSION = 1;
const bit<8> DTA_KEY_WRITE = 0x01;
const bit<8> DTA_APPEND = 0x02;
const bit<8> DTA_KEY_INCREMENT = 0x03;
@noWarn("unused") const bit<8> DTA_NACK = 0x80;

header dta_t {  // what all reports begin with, and NACKs
    bit<4> version;
    bit<1> immediate;
    bit<1> retransmittable;
    bit<2> reserved;
    bit<8> opcode;
    bit<16> reporter;
    bit<32> sequence;
}

header dta_nack_t {
    bit<32> count;
}

header dta_prototype_t {  // with NACK tracking
    bit<8> opcode;
    bit<8> sequence;
    bit<1> immediate;
    bit<1> retransmittable;
    bit<6> reserved;
}

header dta_prototype_plain_t {
    bit<8> opcode;
    bit<1> immediate;
    bit<7> reserved;
}

header dta_prototype_nack_t {
    bit<8> last_good;
    bit<1> nack;
    bit<7> reserved;
}

// What follows the base header. A report is cut behind the data that it has.
header dta_detail_t {
    bit<32> value;  // of Append the list; else redundancy, and what the opcode says
}

header dta_redundancy_t {  // the prototype's
    bit<8> value;
}

header dta_key_t {
    bit<128> value;
}

header dta_short_key_t {
    bit<32> value;
}

header dta_data_t {
    bit<224> words;  // the first one in the highest bits
}

/* A report's headers. */
struct dta_headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    ports_t udp;
    dta_t base;
    dta_prototype_t prototype;
    dta_prototype_plain_t plain;
    dta_detail_t detail;
    dta_redundancy_t redundancy;
    dta_key_t key;
    dta_short_key_t short_key;
    dta_data_t data;
}

const bit<8> DTA_FIELDS = 4;  // metadata that a report's packet takes along from the one reported

/* What a report says, before it has headers. */
struct dta_report_t {
    @field_list(DTA_FIELDS)
    bit<8> translator;  // 0: the packet is no report
    @field_list(DTA_FIELDS)
    bit<32> sequence;
    @field_list(DTA_FIELDS)
    bit<8> opcode;
    @field_list(DTA_FIELDS)
    bit<1> immediate;
    @field_list(DTA_FIELDS)
    bit<1> retransmittable;
    @field_list(DTA_FIELDS)
    bit<32> detail;
    @field_list(DTA_FIELDS)
    bit<128> key;
    @field_list(DTA_FIELDS)
    bit<224> data;
    @field_list(DTA_FIELDS)
    bit<8> words;  // of the data
}

#endif
