/* Forwards like wire.p4. If packets wait in the queue, it marks ECN-capable packets with CE (RFC
 * 3168). */
#include <core.p4>
#include <v1model.p4>

const bit<19> FROM = 20; // If this many packets wait, the switch marks.
const bit<2> NOT_CAPABLE = 0;
const bit<2> CONGESTION_EXPERIENCED = 3;

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_len;
    bit<16> identification;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t {}

parser MarkingParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control MarkingVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MarkingIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { standard_metadata.egress_spec = standard_metadata.ingress_port ^ 3; }
}

control MarkingEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ecn != NOT_CAPABLE && standard_metadata.enq_qdepth >= FROM) {
            hdr.ipv4.ecn = CONGESTION_EXPERIENCED;
        }
    }
}

control MarkingCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            {hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len,
             hdr.ipv4.identification, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol,
             hdr.ipv4.src_addr, hdr.ipv4.dst_addr},
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control MarkingDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(
    MarkingParser(), MarkingVerify(), MarkingIngress(), MarkingEgress(), MarkingCompute(),
    MarkingDeparser()) main;
