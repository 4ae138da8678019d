/* Forwards like wire.p4, counts the packets, and writes TAG into their source address. */
#include <core.p4>
#include <v1model.p4>

#ifndef TAG
#define TAG 0
#endif

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct headers_t { ethernet_t ethernet; }
struct metadata_t {}

parser TagParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control TagVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control TagIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(2, CounterType.packets) passed;
    apply {
        passed.count((bit<32>)standard_metadata.ingress_port - 1);
        hdr.ethernet.src_addr = TAG;
        standard_metadata.egress_spec = standard_metadata.ingress_port ^ 3;
    }
}

control TagEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control TagCompute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control TagDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); }
}

V1Switch(TagParser(), TagVerify(), TagIngress(), TagEgress(), TagCompute(), TagDeparser()) main;
