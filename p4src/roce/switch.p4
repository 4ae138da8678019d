/* Headers in RoCE switches, and the common part around ingress and egress: parser, checksums and
 * deparser.
 *
 * A program declares its `struct metadata_t` before it includes this file. */
#ifndef TELEMARK_ROCE_SWITCH_P4
#define TELEMARK_ROCE_SWITCH_P4

#include "../include/allocation.p4"
#include "packet.p4"
#include "parser.p4"

parser RoceParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    AnswerParser() answer_parser;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_readout_request;
            default: parse_ethernet;
        }
    }

    state parse_readout_request {
        packet.extract(hdr.readout_request);
        transition select(hdr.readout_request.record) {
            WRITE &&& WRITE: parse_readout_write;
            default: accept;
        }
    }

    state parse_readout_write {
        packet.extract(hdr.readout_write);
        transition accept;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_ROCE: parse_grh;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
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
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_UDP: parse_udp_ipv6;
            PROTOCOL_TCP: parse_tcp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.ports);
        packet.extract(hdr.tcp);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.ports);
        transition select(hdr.ports.dst_port, hdr.ipv4.ihl) {
            (ROCE_UDP_PORT, 5): parse_bth;
            default: accept;
        }
    }

    state parse_udp_ipv6 {
        packet.extract(hdr.ports);
        transition select(hdr.ports.dst_port) {
            ROCE_UDP_PORT: parse_bth;
            default: accept;
        }
    }

    state parse_grh {
        packet.extract(hdr.grh);
        transition select(hdr.grh.next_header) {
            NEXT_HEADER_BTH: parse_bth;
            default: accept;
        }
    }

    state parse_bth {
        answer_parser.apply(packet, hdr.bth, hdr.aeth, hdr.atomic_ack, hdr.icrc);
        transition accept;
    }
}

control RoceVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control RoceComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control RoceDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.readout);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.grh);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
        packet.emit(hdr.bth);
        packet.emit(hdr.reth);
        packet.emit(hdr.atomic);
        packet.emit(hdr.immediate);
        packet.emit(hdr.aeth);
        packet.emit(hdr.atomic_ack);
        packet.emit(hdr.flow_record);
        packet.emit(hdr.hop_record);
        packet.emit(hdr.icrc);
    }
}

#endif
