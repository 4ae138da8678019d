/* A switch that acts like a wire: a frame that enters one of its two ports leaves by the other. */
#include <core.p4>
#include <v1model.p4>

struct headers_t {}
struct metadata_t {}

parser WireParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start { transition accept; }
}

control WireVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control WireIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { standard_metadata.egress_spec = standard_metadata.ingress_port ^ 3; }
}

control WireEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control WireCompute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control WireDeparser(packet_out packet, in headers_t hdr) { apply {} }

V1Switch(
    WireParser(), WireVerify(), WireIngress(), WireEgress(), WireCompute(), WireDeparser()) main;
