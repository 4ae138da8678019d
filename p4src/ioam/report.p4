/* Reports to the collector: direct export (DEX) of every node, and the options of packets that
 * leave the domain. A report is a clone of the packet. collectors/ioam/options.py defines its
 * format. */
#ifndef TELEMARK_IOAM_REPORT_P4
#define TELEMARK_IOAM_REPORT_P4

#include "../include/ipv4.p4"
#include "insert.p4"

// Bytes after the options in a report: layer 4 ports, and the start of the payload.
const bit<16> LAYER_4_BYTES = 24;
// maximum length of the packet in a report, so that a report has at most 1500 bytes
const bit<16> PACKET_BYTES = 1320;

/* Copies the packet as it came. The copies are needed because the report is made after the options
 * changed. */
control IoamKeep(inout headers_t hdr, in ioam_t ioam) {
    apply {
        hdr.ioam_kept.ipv6 = hdr.ipv6;
        hdr.ioam_kept.ipv6.hop_limit = ioam.hop_limit;
        hdr.ioam_kept.options = hdr.ioam;
        hdr.ioam_kept.inner_ipv6 = hdr.inner_ipv6;
    }
}

control IoamPutBack(inout headers_t hdr) {
    apply {
        hdr.ipv6 = hdr.ioam_kept.ipv6;
        hdr.ioam = hdr.ioam_kept.options;
        hdr.inner_ipv6 = hdr.ioam_kept.inner_ipv6;
    }
}

/* Numbers the report, and determines its length, before the packet is cloned. */
control PrepareReport(in headers_t hdr, inout ioam_t ioam) {
    register<bit<22>>(1) numbers;

    action count_report() {
        numbers.read(ioam.report_number, 0);
        numbers.write(0, ioam.report_number + 1);
    }

    apply {
        bit<16> headers = IPV6_BYTES + (((bit<16>)hdr.ioam.hop_by_hop.length + 1) << 3);
        if (hdr.ioam.carried_ipv6.isValid()) {
            headers = headers + IPV6_BYTES;
        }
        if (hdr.inner_ipv6.isValid()) {
            headers = headers + IPV6_BYTES;
        }
        bit<16> whole = hdr.ipv6.payload_length + IPV6_BYTES;
        bit<16> bytes = headers + LAYER_4_BYTES;
        if (whole < bytes) {
            bytes = whole;
        }
        if (bytes > PACKET_BYTES) {
            bytes = PACKET_BYTES;
        }
        ioam.report_bytes = bytes & 0xFFFC;
        ioam.hop_limit_in_data = hdr.ipv6.hop_limit;
        count_report();
    }
}

/* Makes a report from the clone. */
control WriteIoamReport(inout headers_t hdr, inout ioam_t ioam, in hop_t hop) {
    FillNodeData() fill;
    bit<16> words = 0;  // words of the report after its first word

    /* Sets the addresses of the switch and of the collector. */
    action send_ioam_report(
        bit<48> src_mac, bit<48> dst_mac, bit<32> src_addr, bit<32> dst_addr, bit<16> port) {
        hdr.report_ethernet.setValid();
        hdr.report_ethernet.dst_addr = dst_mac;
        hdr.report_ethernet.src_addr = src_mac;
        hdr.report_ethernet.ether_type = ETHERTYPE_IPV4;
        bit<16> bytes = (words << 2) + 20;  // UDP, group header, first word
        put_ipv4(hdr.report_ipv4, src_addr, dst_addr, bytes);
        hdr.report_udp.setValid();
        hdr.report_udp.src_port = port;
        hdr.report_udp.dst_port = port;
        hdr.report_udp.word = bytes ++ 16w0;  // no checksum
        truncate((bit<32>)bytes + 34);
    }

    table ioam_collector {
        actions = { send_ioam_report; }
        default_action = send_ioam_report(0, 0, 0, 0, 32766);
    }

    action fill_report(bit<8> data_words) {
        hdr.report_group.setValid();
        hdr.report_group.version = REPORT_VERSION;
        hdr.report_group.hw_id = HW_IOAM;
        hdr.report_group.sequence = ioam.report_number;
        hdr.report_group.node_id = hop.node_id;
        hdr.ioam_report.head.setValid();
        hdr.ioam_report.head.type = REPORT_OF_IOAM;
        hdr.ioam_report.head.inner_type = INNER_IPV6;
        hdr.ioam_report.head.length = words > 255 ? 8w255 : words[7:0];
        hdr.ioam_report.head.data_words = data_words;
        hdr.ioam_report.head.dropped = 0;
        hdr.ioam_report.head.congested = 0;
        hdr.ioam_report.head.flow = 1;
        hdr.ioam_report.head.reserved = 0;
        hdr.ioam_report.head.namespace_id = ioam.report_namespace;
        hdr.ioam_report.head.unused = 0;
        hdr.ioam_report.head.option_type = ioam.report_option;
        hdr.ioam_report.head.trace_type = ioam.report_type;
        hdr.ioam_report.head.last_unused = 0;
        hdr.ethernet.setInvalid();
    }

    apply {
        bit<8> data_words = words_of_node(ioam.report_type);
        words = 2 + (bit<16>)data_words + (ioam.report_bytes >> 2);
        fill.apply(hdr.ioam_report.data, ioam, hop, ioam.hop_limit_in_data, ioam.report_type);
        fill_report(data_words);
        ioam_collector.apply();
    }
}

#endif
