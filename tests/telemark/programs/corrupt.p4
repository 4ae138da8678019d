/* Forwards like wire.p4, and writes a wrong value into the field FIELD of IPv4, UDP or TCP. */
#include <core.p4>
#include <v1model.p4>

// Ethernet, IPv4 without options, and then the first bytes of TCP, or of UDP and its data
header frame_t {
    bit<192> ethernet_and_ipv4;
    bit<16> ipv4_checksum;
    bit<64> addresses;
    bit<32> ports;
    bit<16> udp_length;
    bit<16> udp_checksum;
    bit<64> tcp_part;
    bit<16> tcp_checksum;
}

struct headers_t {
    frame_t frame;
}

struct metadata_t { }

parser CorruptParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.frame);
        transition accept;
    }
}

control CorruptVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control CorruptIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.frame.FIELD = hdr.frame.FIELD ^ 0x0100;
        standard_metadata.egress_spec = standard_metadata.ingress_port ^ 3;
    }
}

control CorruptEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control CorruptCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control CorruptDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.frame); }
}

V1Switch(
    CorruptParser(), CorruptVerify(), CorruptIngress(), CorruptEgress(), CorruptCompute(),
    CorruptDeparser()) main;
