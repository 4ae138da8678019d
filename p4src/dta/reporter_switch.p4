/* Common part of reporters, around ingress and egress: parser, checksums and deparser.
 *
 * A program declares its `struct metadata_t` before it includes this file. */
#ifndef TELEMARK_DTA_REPORTER_SWITCH_P4
#define TELEMARK_DTA_REPORTER_SWITCH_P4

#include "../include/allocation.p4"
#include "../include/readout.p4"
#include "reporter_packet.p4"

struct headers_t {
    readout_request_t readout_request;
    readout_write_t readout_write;
    readout_t readout;
    dta_headers_t report;
    ethernet_t ethernet;
    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    ports_t ports;
    tcp_t tcp;
    dta_t nack_base;
    nack_t nack;
    short_nack_t short_nack;
}

parser ReporterParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
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

    state parse_tcp {
        packet.extract(hdr.ports);
        packet.extract(hdr.tcp);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.ports);
        transition select(hdr.ports.dst_port) {
#ifdef DTA_PROTOTYPE
            NACK_PORT: parse_short_nack;
#else
            NACK_PORT: parse_nack;
#endif
            default: accept;
        }
    }

#ifdef DTA_PROTOTYPE
    state parse_short_nack {
        packet.extract(hdr.short_nack);
        transition accept;
    }
#else
    state parse_nack {
        packet.extract(hdr.nack_base);
        transition select(hdr.nack_base.version, hdr.nack_base.opcode) {
            (DTA_VERSION, NACK): parse_nack_count;
            default: accept;
        }
    }

    state parse_nack_count {
        packet.extract(hdr.nack);
        transition accept;
    }
#endif
}

control ReporterVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ReporterComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ReporterDeparser(packet_out packet, in headers_t hdr) {
    EmitReport() emit_report;

    apply {
        packet.emit(hdr.readout);
        emit_report.apply(packet, hdr.report);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
        packet.emit(hdr.nack_base);
        packet.emit(hdr.nack);
        packet.emit(hdr.short_nack);
    }
}

#endif
