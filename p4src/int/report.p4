/* Telemetry reports: selection of packets, and conversion of clones to reports. Section numbers are
 * those of Telemetry Report v2.0. */
#ifndef TELEMARK_INT_REPORT_P4
#define TELEMARK_INT_REPORT_P4

#include "hop.p4"
#include "lengths.p4"
#include "packet.p4"
#include "watch.p4"

const bit<32> INGRESS_CLONE = 1;  // instance_type
// a full queue dropped the packet; only on minip4 with --deflect-on-drop
const bit<32> DEFLECTED = 7;

const bit<32> PAYLOAD_BYTES = 16;  // payload in reports about UDP packets without identification

// metadata that a report keeps when it is recirculated (grouping.p4)
const bit<8> GATHER_FIELDS = 2;

struct int_report_t {
    @field_list(CLONE_FIELDS)
    bit<1> dropped;
    @field_list(CLONE_FIELDS)
    bit<1> congested;
    @field_list(CLONE_FIELDS)
    bit<1> flow;
    @field_list(CLONE_FIELDS)
    bit<16> metadata_bits;
    @field_list(CLONE_FIELDS, GATHER_FIELDS)
    bit<6> hw_id;
    @field_list(CLONE_FIELDS, GATHER_FIELDS)
    bit<22> sequence;
    @field_list(GATHER_FIELDS)
    bit<16> words;
    @field_list(GATHER_FIELDS)
    bit<48> reported_us;  // time of the report, on the clock of the switch
}

/* Assigns sequence numbers to reports before they are queued. So a dropped report leaves a gap in
 * the numbers. */
control Number(inout int_report_t report) {
    register<bit<22>>(1) numbers;

    action count() {
        numbers.read(report.sequence, 0);
        numbers.write(0, report.sequence + 1);
    }

    apply {
        count();
    }
}

/* Returns the length in words of the headers from IP to layer 4. If the packet has INT, the headers
 * include INT. */
bit<16> words_of_headers(in headers_t hdr, in bit<1> is_int) {
    bit<16> words = hdr.ipv4.isValid() ? (bit<16>)hdr.ipv4.ihl : 10;
    if (hdr.tcp.isValid()) {
        words = words + (bit<16>)hdr.tcp.data_offset;
    } else if (hdr.ports.isValid()) {
        words = words + 2;
    }
    if (is_int == 1) {
        words = words + (bit<16>)hdr.shim.length + 1;
        if (hdr.marker.isValid()) {
            words = words + 2;
        }
        if (hdr.inner_ports.isValid()) {
            words = words + 2;
        }
    }
    return words;
}

/* Makes a report from a clone of a packet. The report contains the packet from the IP header to the
 * end of INT, or of the layer 4 header if there is no INT. If no header field distinguishes the
 * packets of a flow, a part of the payload follows. */
control WriteReport(
    inout headers_t hdr, in int_watch_t watch, inout int_report_t report, in hop_t hop,
    in bit<8> drop_reason) {
    FillMetadata() fill;
    bit<32> unused = 0;

    action fill_report(bit<4> inner_type, bit<8> metadata, bit<8> length) {
        hdr.report.setValid();
        hdr.report.type = REPORT_OF_INT;
        hdr.report.inner_type = inner_type;
        hdr.report.length = length;
        hdr.report.metadata_words = metadata;
        hdr.report.dropped = report.dropped;
        hdr.report.congested = report.congested;
        hdr.report.flow = report.flow;
        hdr.report.intermediate = 0;
        hdr.report.reserved = 0;
        hdr.report.metadata_bits = report.metadata_bits;
        hdr.report.domain_id = 0;
        hdr.report.domain_bits = 0;
        hdr.report.domain_status = 0;
    }

    apply {
        // number of words of the truncated packet
        bit<16> words = words_of_headers(hdr, watch.is_int);
        bool is_alike = !hdr.ipv4.isValid() || hdr.ipv4.identification == 0;
        if (is_alike && hdr.ports.isValid() && !hdr.tcp.isValid() && watch.is_full == 1
            && bytes_of_ip(hdr.ipv4, hdr.ipv6) >= ((bit<32>)words << 2) + PAYLOAD_BYTES) {
            words = words + (bit<16>)(PAYLOAD_BYTES >> 2);
        }
        bit<8> metadata = metadata_words(report.metadata_bits);
        words = words + (bit<16>)(metadata + REPORT_FIXED_WORDS);
        fill_report(
            hdr.ipv4.isValid() ? INNER_IPV4 : INNER_IPV6, metadata,
            words > 255 ? 8w255 : words[7:0]);
        fill.apply(
            hdr.report_metadata, hop, report.metadata_bits & KNOWN_TO_REPORTS, unused);
        if ((report.metadata_bits & DROP_REASON) != 0) {
            hdr.report_drop.setValid();
            hdr.report_drop.value = hop.queue ++ drop_reason ++ 16w0;
        }
        hdr.ethernet.setInvalid();
        report.words = words + 1;
    }
}

control WriteGroup(inout headers_t hdr, in int_report_t report, in bit<32> node_id) {
    action fill_group() {
        hdr.report_group.setValid();
        hdr.report_group.version = REPORT_VERSION;
        hdr.report_group.hw_id = report.hw_id;
        hdr.report_group.sequence = report.sequence;
        hdr.report_group.node_id = node_id;
    }

    apply {
        fill_group();
    }
}

/* Writes Ethernet, IP and UDP headers around a group header and `words` words of reports. */
control WriteOuter(inout headers_t hdr, in bit<16> words) {
    /* Sets the addresses of the switch and of the collector. */
    action send_report(
        bit<48> src_mac, bit<48> dst_mac, bit<32> src_addr, bit<32> dst_addr, bit<16> port) {
        hdr.report_ethernet.setValid();
        hdr.report_ethernet.dst_addr = dst_mac;
        hdr.report_ethernet.src_addr = src_mac;
        hdr.report_ethernet.ether_type = ETHERTYPE_IPV4;
        hdr.report_ipv4.setValid();
        hdr.report_ipv4.version = 4;
        hdr.report_ipv4.ihl = 5;
        hdr.report_ipv4.dscp = 0;
        hdr.report_ipv4.ecn = 0;
        hdr.report_ipv4.identification = 0;
        hdr.report_ipv4.flags = 2;  // do not fragment
        hdr.report_ipv4.fragment_offset = 0;
        hdr.report_ipv4.ttl = 64;
        hdr.report_ipv4.protocol = PROTOCOL_UDP;
        hdr.report_ipv4.src_addr = src_addr;
        hdr.report_ipv4.dst_addr = dst_addr;
        hdr.report_udp.setValid();
        hdr.report_udp.src_port = port;
        hdr.report_udp.dst_port = port;
    }

    table collector {
        actions = { send_report; }
        default_action = send_report(0, 0, 0, 0, 32766);
    }

    action set_lengths() {
        bit<16> bytes = (words << 2) + 8;  // number of bytes, including the group header
        hdr.report_udp.word = (bytes + 8) ++ 16w0;  // no checksum
        hdr.report_ipv4.total_length = bytes + 28;
        bit<32> sum = 0x4500 + 0x4000 + 0x4011
            + (bit<32>)hdr.report_ipv4.total_length
            + halves(hdr.report_ipv4.src_addr) + halves(hdr.report_ipv4.dst_addr);
        hdr.report_ipv4.checksum = ~folded(sum);
        truncate((bit<32>)bytes + 42);
    }

    apply {
        collector.apply();
        set_lengths();
    }
}

#endif
