/* Headers and parser shared by all programs: Ethernet, IPv4, IPv6 with a mark and with another IPv6
 * packet inside, and what UDP and TCP begin with. */
#ifndef TELEMARK_HEADERS_P4
#define TELEMARK_HEADERS_P4

#include <core.p4>
#include <v1model.p4>
#include "allocation.p4"
#include "readout.p4"

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_IPV6 = 0x86DD;
const bit<8> PROTOCOL_HOP_BY_HOP = 0;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;
const bit<8> PROTOCOL_IPV6 = 41;  // an IPv6 packet inside another one: RFC 2473

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {  // RFC 791; DSCP and ECN as RFC 2474 and RFC 3168 divide the old TOS byte
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

header ipv4_options_t {
    varbit<320> options;
}

header ipv6_t {  // RFC 8200
    bit<4> version;
    bit<8> traffic_class;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src_addr;
    bit<128> dst_addr;
}

header altmark_t {  // a hop-by-hop header with the AltMark option and nothing else: RFC 9343
    bit<8> next_header;
    bit<8> length;  // 0: eight bytes
    bit<8> option_type;
    bit<8> option_length;
    bit<20> flow_mon_id;
    bit<1> colour;  // the L flag
    bit<1> pulse;   // the D flag
    bit<10> reserved;
}

// A hop-by-hop header's second to fourth byte: eight bytes long, AltMark (0x12) of four bytes.
const bit<24> ALTMARK_ALONE = 0x001204;

header ports_t {  // the first eight bytes of both UDP and TCP
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> word;  // UDP: length and checksum; TCP: sequence number
}

struct headers_t {
    readout_request_t readout_request;
    readout_t readout;
    ethernet_t ethernet;
    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    ipv6_t ipv6;
    altmark_t altmark;
    ipv6_t inner_ipv6;
    ports_t ports;
}

/* A fragment but the first has no `ports`: what follows its IPv4 header is no transport header.
 * Of IPv6's extension headers only the first one is known, where it has the AltMark option and
 * nothing else. Inside it may be another IPv6 packet: then `ports` are that one's. */
parser HeadersParser(
    packet_in packet, out headers_t hdr, in standard_metadata_t standard_metadata) {
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
            PROTOCOL_HOP_BY_HOP: parse_hop_by_hop;
            PROTOCOL_UDP: parse_ports;
            PROTOCOL_TCP: parse_ports;
            default: accept;
        }
    }

    state parse_hop_by_hop {
        transition select(packet.lookahead<bit<32>>()[23:0]) {
            ALTMARK_ALONE: parse_altmark;
            default: accept;
        }
    }

    state parse_altmark {
        packet.extract(hdr.altmark);
        transition select(hdr.altmark.next_header) {
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
        packet.emit(hdr.altmark);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.ports);
    }
}

/* Writes the DSCP, and changes the header checksum by the difference (RFC 1624, equation 3). So
 * options need not be known, and a header that was damaged on its way is not made good by it. */
control Ipv4SetDscp(inout ipv4_t ipv4, in bit<6> dscp) {
    apply {
        bit<16> before = ipv4.version ++ ipv4.ihl ++ ipv4.dscp ++ ipv4.ecn;
        ipv4.dscp = dscp;
        bit<16> after = ipv4.version ++ ipv4.ihl ++ ipv4.dscp ++ ipv4.ecn;
        bit<32> sum = (bit<32>)(~ipv4.checksum) + (bit<32>)(~before) + (bit<32>)after;
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        ipv4.checksum = ~sum[15:0];
    }
}

#endif
