/* Puts a report in front of the copy of a packet, and cuts it behind the report. */
#ifndef TELEMARK_DTA_REPORTER_WRITE_P4
#define TELEMARK_DTA_REPORTER_WRITE_P4

#include "reporter_packet.p4"
#include "reporter_ring.p4"

/* The format is chosen when the program is built: ours, or with DTA_PROTOTYPE the prototype's, whose
 * base header has no sequence number with DTA_PROTOTYPE_PLAIN. */
control FillReport(inout dta_headers_t headers, in dta_report_t report, in bit<16> reporter) {
    apply {
        bool has_key = report.opcode != DTA_APPEND;
        headers.data.setValid();
        headers.data.words = report.data;
#ifdef DTA_PROTOTYPE
#ifdef DTA_PROTOTYPE_PLAIN
        headers.plain.setValid();
        headers.plain.opcode = report.opcode;
        headers.plain.immediate = report.immediate;
        headers.plain.reserved = 0;
#else
        headers.prototype.setValid();
        headers.prototype.opcode = report.opcode;
        headers.prototype.sequence = report.sequence[7:0];
        headers.prototype.immediate = report.immediate;
        headers.prototype.retransmittable = report.retransmittable;
        headers.prototype.reserved = 0;
#endif
        headers.detail.setInvalid();
        headers.redundancy.setInvalid();
        headers.short_key.setInvalid();
        if (has_key) {
            headers.redundancy.setValid();
            headers.redundancy.value = report.detail[31:24];
            headers.short_key.setValid();
            headers.short_key.value = report.key[127:96];  // the source's address
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

/* Bytes of a report behind UDP. */
bit<16> bytes_of_report(in dta_report_t report) {
    bit<16> data = (bit<16>)report.words << 2;
#ifdef DTA_PROTOTYPE
#ifdef DTA_PROTOTYPE_PLAIN
    bit<16> base = 2;
#else
    bit<16> base = 3;
#endif
    return base + data + (report.opcode == DTA_APPEND ? 16w4 : 5);
#else
    return 12 + data + (report.opcode == DTA_APPEND ? 16w0 : 16);
#endif
}

control WriteReport(
    inout dta_headers_t headers, in dta_report_t report,
    inout standard_metadata_t standard_metadata) {
    FillReport() fill;
    bit<16> reporter = 0;

    /* This reporter's addresses towards a translator, and the translator's. The source port is always
     * the same: another one could lead another way, and reports must not pass each other. */
    @noWarn("unused")
    action send_report(
        bit<48> src_mac, bit<48> dst_mac, bit<32> src_addr, bit<32> dst_addr,
        bit<16> reporter_number) {
        reporter = reporter_number;
        headers.ethernet.setValid();
        headers.ethernet.src_addr = src_mac;
        headers.ethernet.dst_addr = dst_mac;
        headers.ethernet.ether_type = ETHERTYPE_IPV4;
        headers.ipv4.setValid();
        headers.ipv4.version = 4;
        headers.ipv4.ihl = 5;
        headers.ipv4.dscp = 0;
        headers.ipv4.ecn = 0;
        headers.ipv4.identification = 0;
        headers.ipv4.flags = 2;  // do not fragment
        headers.ipv4.fragment_offset = 0;
        headers.ipv4.ttl = 64;
        headers.ipv4.protocol = PROTOCOL_UDP;
        headers.ipv4.src_addr = src_addr;
        headers.ipv4.dst_addr = dst_addr;
        headers.udp.setValid();
#ifdef DTA_PROTOTYPE
        headers.udp.src_port = DTA_PROTOTYPE_PORT;
        headers.udp.dst_port = DTA_PROTOTYPE_PORT;
#else
        headers.udp.src_port = DTA_PORT;
        headers.udp.dst_port = DTA_PORT;
#endif
    }

    action no_translator() {
        mark_to_drop(standard_metadata);
    }

    table translators {
        key = { report.translator: exact; }
        actions = { send_report; no_translator; }
        default_action = no_translator();
        size = DTA_TRANSLATORS;
    }

    action set_lengths(bit<16> udp_bytes) {
        headers.udp.word = udp_bytes ++ 16w0;  // no checksum
        headers.ipv4.total_length = udp_bytes + 20;
        bit<32> sum = 0x4500 + 0x4000 + 0x4011 + (bit<32>)headers.ipv4.total_length
            + (headers.ipv4.src_addr >> 16) + (headers.ipv4.src_addr & 0xFFFF)
            + (headers.ipv4.dst_addr >> 16) + (headers.ipv4.dst_addr & 0xFFFF);
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        headers.ipv4.checksum = ~sum[15:0];
        truncate((bit<32>)udp_bytes + 34);
    }

    apply {
        if (translators.apply().hit) {
            fill.apply(headers, report, reporter);
            set_lengths(bytes_of_report(report) + 8);
        }
    }
}

#endif
