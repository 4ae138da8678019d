/* Common part of INT switches, around ingress and egress: parser, checksums and deparser.
 *
 * A program declares its `struct metadata_t` before it includes this file. Checksums are neither
 * verified nor computed. If a field changes, the program updates the checksum incrementally. */
#ifndef TELEMARK_INT_SWITCH_P4
#define TELEMARK_INT_SWITCH_P4

#include "../include/ipv6_options.p4"
#include "packet.p4"

// A program may define statements here. They read the stack before the parser extracts it.
#ifndef INT_READ_STACK
#define INT_READ_STACK
#endif

// A program may define statements here. They read the first UDP header of the packet.
#ifndef INT_READ_UDP
#define INT_READ_UDP
#endif

// A program may emit headers of its own here: at the end of the headers of a report, and after the
// options of IPv6.
#ifndef INT_EMIT_REPORT
#define INT_EMIT_REPORT
#endif
#ifndef INT_EMIT_OPTIONS
#define INT_EMIT_OPTIONS
#endif

/* If `stack` is valid, INT is complete; the stack may be empty. If `shim` is valid but `stack` is
 * not, the packet is marked as INT, but the lengths or the type are wrong. */
parser IntParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    AltmarkParser() altmark_parser;
    bit<6> dscp;
    bit<8> following;  // protocol after an options header

    state start {
        dscp = 0;
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_readout_request;
            default: parse_ethernet;
        }
    }

    state parse_readout_request {
        packet.extract(hdr.readout_request);
        transition accept;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        dscp = hdr.ipv4.dscp;
        transition select(hdr.ipv4.ihl) {
            5: parse_transport;
            6 .. 15: parse_ipv4_options;
            default: accept;
        }
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl - 5) << 5);
        transition parse_transport;
    }

    state parse_transport {
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, PROTOCOL_UDP): parse_udp;
            (0, PROTOCOL_TCP): parse_tcp;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        dscp = hdr.ipv6.traffic_class[7:2];
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_UDP: parse_udp;
            PROTOCOL_TCP: parse_tcp;
            PROTOCOL_HOP_BY_HOP: parse_options;
            PROTOCOL_DESTINATION_OPTIONS: parse_options;
            default: accept;
        }
    }

    // As in include/parser.p4. These packets are for AM-PM, not for INT.
    state parse_options {
        altmark_parser.apply(
            packet, hdr.options, hdr.options_before, hdr.altmark, hdr.options_after, following);
        transition select(following) {
            PROTOCOL_UDP: parse_ports;
            PROTOCOL_TCP: parse_ports;
            PROTOCOL_IPV6: parse_inner_ipv6;
            default: accept;
        }
    }

    state parse_inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        transition select(hdr.inner_ipv6.next_header) {
            PROTOCOL_UDP: parse_ports;
            PROTOCOL_TCP: parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.ports);
        INT_READ_UDP
        transition select(hdr.ports.dst_port) {
            INT_UDP_PORT: parse_shim;
            default: parse_mark;
        }
    }

    state parse_tcp {
        packet.extract(hdr.ports);
        packet.extract(hdr.tcp);
        transition select(hdr.tcp.data_offset) {
            5: parse_mark;
            6 .. 15: parse_tcp_options;
            default: accept;
        }
    }

    state parse_tcp_options {
        packet.extract(hdr.tcp_options, ((bit<32>)hdr.tcp.data_offset - 5) << 5);
        transition parse_mark;
    }

    state parse_mark {
        transition select(dscp) {
            INT_DSCP &&& INT_DSCP_MASK: parse_shim;
            default: parse_marker;
        }
    }

    state parse_marker {
        transition select(packet.lookahead<bit<64>>()) {
            PROBE_MARKER: extract_marker;
            default: accept;
        }
    }

    state extract_marker {
        packet.extract(hdr.marker);
        transition parse_shim;
    }

    state parse_shim {
        packet.extract(hdr.shim);
        transition select(hdr.shim.type, hdr.shim.length) {
            (INT_MD, INT_HEADER_WORDS .. 255): parse_int;
            (INT_MX, INT_HEADER_WORDS .. 255): parse_int;
            default: accept;
        }
    }

    state parse_int {
        packet.extract(hdr.int_header);
        INT_READ_STACK
        packet.extract(hdr.stack, (bit<32>)(hdr.shim.length - INT_HEADER_WORDS) << 5);
        transition select(hdr.shim.npt) {
            NPT_L4: parse_inner_ports;
            default: accept;
        }
    }

    state parse_inner_ports {
        packet.extract(hdr.inner_ports);
        transition accept;
    }
}

control IntVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IntComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EmitMetadata(packet_out packet, in int_metadata_t metadata) {
    apply {
        packet.emit(metadata.node_id);
        packet.emit(metadata.level_1);
        packet.emit(metadata.latency);
        packet.emit(metadata.occupancy);
        packet.emit(metadata.ingress_time);
        packet.emit(metadata.egress_time);
        packet.emit(metadata.level_2);
        packet.emit(metadata.utilisation);
    }
}

control IntDeparser(packet_out packet, in headers_t hdr) {
    EmitMetadata() emit_report_metadata;
    EmitMetadata() emit_metadata;

    apply {
        packet.emit(hdr.readout);
        packet.emit(hdr.report_ethernet);
        packet.emit(hdr.report_ipv4);
        packet.emit(hdr.report_udp);
        packet.emit(hdr.report_group);
        packet.emit(hdr.report);
        emit_report_metadata.apply(packet, hdr.report_metadata);
        packet.emit(hdr.report_drop);
        INT_EMIT_REPORT
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.options);
        packet.emit(hdr.options_before);
        packet.emit(hdr.altmark);
        packet.emit(hdr.options_after);
        INT_EMIT_OPTIONS
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
        packet.emit(hdr.tcp_options);
        packet.emit(hdr.marker);
        packet.emit(hdr.shim);
        packet.emit(hdr.int_header);
        emit_metadata.apply(packet, hdr.metadata);
        packet.emit(hdr.unknown_1);
        packet.emit(hdr.unknown_2);
        packet.emit(hdr.unknown_4);
        packet.emit(hdr.complement);
        packet.emit(hdr.stack);
        packet.emit(hdr.inner_ports);
        packet.emit(hdr.inner_tcp);
        packet.emit(hdr.inner_tcp_options);
    }
}

#endif
