/* Headers that all programs share: Ethernet, IPv4, IPv6 with AltMark, and the first bytes of UDP
 * and TCP. */
#ifndef TELEMARK_HEADERS_P4
#define TELEMARK_HEADERS_P4

#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;
@noWarn("unused") const bit<16> ETHERTYPE_IPV6 = 0x86DD;
@noWarn("unused") const bit<8> PROTOCOL_HOP_BY_HOP = 0;
@noWarn("unused") const bit<8> PROTOCOL_TCP = 6;
@noWarn("unused") const bit<8> PROTOCOL_UDP = 17;
@noWarn("unused") const bit<8> PROTOCOL_DESTINATION_OPTIONS = 60;
@noWarn("unused") const bit<8> PROTOCOL_NONE = 59;  // nothing follows: RFC 8200
@noWarn("unused") const bit<8> PROTOCOL_IPV6 = 41;  // an IPv6 packet in another packet: RFC 2473

@noWarn("unused") const bit<32> ETHERNET_BYTES = 14;

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {  // RFC 791; DSCP and ECN by RFC 2474 and RFC 3168
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

header options_header_t {  // start of a hop-by-hop or destination options header: RFC 8200
    bit<8> next_header;
    bit<8> length;  // 0 means eight bytes
}

header other_options_t {  // other options of this header
    varbit<192> bytes;
}

header altmark_t {  // the AltMark option: RFC 9343
    bit<8> option_type;
    bit<8> option_length;
    bit<20> flow_mon_id;
    bit<1> colour;  // flag L
    bit<1> pulse;   // flag D
    bit<10> reserved;
}

@noWarn("unused") const bit<16> ALTMARK_OPTION = 0x1204;  // type, and length of the data
@noWarn("unused") const bit<16> OPTION_PAD1 = 0;  // type 0: one byte, without a length

// Bytes 2 to 4 of an options header that has only the AltMark option: length eight bytes, AltMark
@noWarn("unused") const bit<24> ALTMARK_ALONE = 0x001204;

header ports_t {  // the first eight bytes of UDP, and also of TCP
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> word;  // UDP: length and checksum; TCP: sequence number
}

header tcp_t {  // RFC 9293; the part that follows the eight bytes of ports_t
    bit<32> acknowledgement;
    bit<4> data_offset;
    bit<12> flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

/* Returns the checksum after one word has changed (RFC 1624, equation 3). With such updates, a
 * program need not parse options, and a damaged header does not become valid. */
bit<16> changed_checksum(in bit<16> checksum, in bit<16> before, in bit<16> after) {
    bit<32> sum = (bit<32>)(~checksum) + (bit<32>)(~before) + (bit<32>)after;
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    return ~sum[15:0];
}

/* Sets the DSCP, and updates the header checksum. */
@noWarn("unused")
control Ipv4SetDscp(inout ipv4_t ipv4, in bit<6> dscp) {
    apply {
        bit<16> before = ipv4.version ++ ipv4.ihl ++ ipv4.dscp ++ ipv4.ecn;
        ipv4.dscp = dscp;
        bit<16> after = ipv4.version ++ ipv4.ihl ++ ipv4.dscp ++ ipv4.ecn;
        ipv4.checksum = changed_checksum(ipv4.checksum, before, after);
    }
}

#endif
