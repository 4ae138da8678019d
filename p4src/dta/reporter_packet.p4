/* A packet in a reporter, and the report that precedes the packet in a clone. */
#ifndef TELEMARK_DTA_REPORTER_PACKET_P4
#define TELEMARK_DTA_REPORTER_PACKET_P4

#include "headers.p4"

// Follows the base header. A report is truncated after the data that it has.
header dta_detail_t {
    bit<32> value;  // Append: the list; other opcodes: redundancy and more fields
}

header dta_redundancy_t {  // format of the prototype
    bit<8> value;
}

header dta_key_t {
    bit<128> value;
}

header dta_short_key_t {
    bit<32> value;
}

header dta_short_hop_t {  // format of postcards of the prototype
    bit<8> value;  // number of the hop; hops are numbered from 1
}

header dta_data_t {
    bit<224> words;  // the first word is in the highest bits
}

/* Headers of a report. */
struct dta_headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    ports_t udp;
    dta_t base;
    prototype_t prototype;
    dta_detail_t detail;
    dta_redundancy_t redundancy;
    dta_key_t key;
    dta_short_key_t short_key;
    dta_short_hop_t short_hop;
    dta_data_t data;
}

/* Emits a report before the packet that is reported. */
control EmitReport(packet_out packet, in dta_headers_t report) {
    apply {
        packet.emit(report.ethernet);
        packet.emit(report.ipv4);
        packet.emit(report.udp);
        packet.emit(report.base);
        packet.emit(report.prototype);
        packet.emit(report.detail);
        packet.emit(report.redundancy);
        packet.emit(report.key);
        packet.emit(report.short_key);
        packet.emit(report.short_hop);
        packet.emit(report.data);
    }
}

const bit<8> DTA_FIELDS = 4;  // metadata that a report gets from the reported packet

/* Content of a report, before the headers are set. */
struct dta_report_t {
    @field_list(DTA_FIELDS)
    bit<8> translator;  // 0 means that the packet is not a report
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
    bit<8> words;  // number of data words
}

#endif
