/* Parser and deparser for programs without headers of their own. They handle Ethernet, IPv4, IPv6
 * with AltMark and with an inner IPv6 packet, the first bytes of UDP and TCP, and readout
 * packets. */
#ifndef TELEMARK_PARSER_P4
#define TELEMARK_PARSER_P4

#include "allocation.p4"
#include "headers.p4"
#include "ipv6_options.p4"
#include "readout.p4"

struct headers_t {
    readout_request_t readout_request;
    readout_t readout;
    ethernet_t ethernet;
    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    ipv6_t ipv6;
    options_header_t options;
    other_options_t options_before;
    altmark_t altmark;
    other_options_t options_after;
    ipv6_t inner_ipv6;
    ports_t ports;
}

/* A fragment other than the first has no `ports`, because no transport header follows its IPv4
 * header. The first extension header of IPv6 is parsed if it contains the AltMark option. No other
 * extension header is parsed. If an inner IPv6 packet follows, `ports` are the ports of the
 * inner packet. */
parser HeadersParser(
    packet_in packet, out headers_t hdr, in standard_metadata_t standard_metadata) {
    AltmarkParser() altmark_parser;
    bit<8> following;  // protocol after the options header

    state start {
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
            (0, PROTOCOL_UDP): parse_ports;
            (0, PROTOCOL_TCP): parse_ports;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_HOP_BY_HOP: parse_options;
            PROTOCOL_DESTINATION_OPTIONS: parse_options;
            PROTOCOL_UDP: parse_ports;
            PROTOCOL_TCP: parse_ports;
            default: accept;
        }
    }

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
}

control HeadersDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.readout);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.options);
        packet.emit(hdr.options_before);
        packet.emit(hdr.altmark);
        packet.emit(hdr.options_after);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.ports);
    }
}

#endif
