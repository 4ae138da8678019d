/* Writes a report in front of a copied packet. The frame is then truncated after the report. */
#ifndef TELEMARK_DTA_REPORTER_WRITE_P4
#define TELEMARK_DTA_REPORTER_WRITE_P4

#include "../include/ipv4.p4"
#include "reporter_packet.p4"
#include "reporter_ring.p4"

/* Writes the report in Telemark's format. With DTA_PROTOTYPE, writes it in the format of the
 * prototype. */
control FillReport(inout dta_headers_t headers, in dta_report_t report, in bit<16> reporter) {
    apply {
        bool has_key = report.opcode != APPEND;
        headers.data.setValid();
        headers.data.words = report.data;
#ifdef DTA_PROTOTYPE
        headers.prototype.setValid();
        headers.prototype.opcode = report.opcode;
        headers.prototype.immediate = report.immediate;
        headers.prototype.reserved = 0;
#if DTA_NACK_TRACKING
        headers.prototype.sequence = report.sequence[7:0];
        headers.prototype.retransmittable = report.retransmittable;
#endif
        headers.detail.setInvalid();
        headers.redundancy.setInvalid();
        headers.short_key.setInvalid();
        headers.short_hop.setInvalid();
        if (report.opcode == POSTCARDING) {
            headers.short_key.setValid();
            headers.short_key.value = report.key[127:96];
            headers.short_hop.setValid();
            headers.short_hop.value = report.detail[23:16] + 1;
        } else if (has_key) {
            headers.redundancy.setValid();
            headers.redundancy.value = report.detail[31:24];
            headers.short_key.setValid();
            headers.short_key.value = report.key[127:96];  // source address
        } else {
            headers.detail.setValid();
            headers.detail.value = report.detail;
        }
#else
        headers.base.setValid();
        headers.base.version = DTA_VERSION;
        headers.base.immediate = report.immediate;
        headers.base.retransmittable = report.retransmittable;
        headers.base.reserved = 0;
        headers.base.opcode = report.opcode;
        headers.base.reporter = reporter;
        headers.base.sequence = report.sequence;
        headers.detail.setValid();
        headers.detail.value = report.detail;
        headers.key.setInvalid();
        if (has_key) {
            headers.key.setValid();
            headers.key.value = report.key;
        }
#endif
    }
}

/* Returns how many bytes of a report follow the UDP header. */
bit<16> bytes_of_report(in dta_report_t report) {
    bit<16> data = (bit<16>)report.words << 2;
#ifdef DTA_PROTOTYPE
    return 2 + DTA_NACK_TRACKING + data + (report.opcode == APPEND ? 16w4 : 5);
#else
    return 12 + data + (report.opcode == APPEND ? 16w0 : 16);
#endif
}

control PutReport(
    inout dta_headers_t headers, in dta_report_t report,
    inout standard_metadata_t standard_metadata) {
    FillReport() fill;
    bit<16> reporter = 0;
    bit<16> udp_bytes = 0;

    /* Sets the addresses of this reporter and of the translator. The source port is constant,
     * because reports must not be reordered, and packets with different ports might take different
     * paths. */
    @noWarn("unused")
    action address_report(
        bit<48> src_mac, bit<48> dst_mac, bit<32> src_addr, bit<32> dst_addr,
        bit<16> reporter_number) {
        reporter = reporter_number;
        headers.ethernet.setValid();
        headers.ethernet.src_addr = src_mac;
        headers.ethernet.dst_addr = dst_mac;
        headers.ethernet.ether_type = ETHERTYPE_IPV4;
        put_ipv4(headers.ipv4, src_addr, dst_addr, udp_bytes);
        headers.udp.setValid();
#ifdef DTA_PROTOTYPE
        headers.udp.src_port = PROTOTYPE_PORT;
        headers.udp.dst_port = PROTOTYPE_PORT;
#else
        headers.udp.src_port = DTA_PORT;
        headers.udp.dst_port = DTA_PORT;
#endif
        headers.udp.word = udp_bytes ++ 16w0;  // no checksum
    }

    action no_translator() {
        mark_to_drop(standard_metadata);
    }

    table translators {
        key = { report.translator: exact; }
        actions = { address_report; no_translator; }
        default_action = no_translator();
        size = DTA_TRANSLATORS;
    }

    apply {
        udp_bytes = bytes_of_report(report) + 8;
        if (translators.apply().hit) {
            fill.apply(headers, report, reporter);
            truncate((bit<32>)udp_bytes + 34);  // Ethernet, IPv4
        }
    }
}

#endif
