/* The AM-PM switch: forwards, and measures watched flows by step marking. The controller's entries
 * alone make it the first, a middle or the last switch of a flow's path. */
#include "../include/forwarding.p4"
#include "../include/headers.p4"
#include "step.p4"

struct metadata_t {
    step_t step;
}

parser AmpmParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    Ipv4Parser() ipv4_parser;

    state start {
        ipv4_parser.apply(packet, hdr);
        transition accept;
    }
}

control AmpmVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control AmpmIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    StepIngress() step;

    apply {
        forwarding.apply(hdr, standard_metadata);
        step.apply(hdr, meta.step, standard_metadata);
    }
}

control AmpmEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    StepEgress() step;

    apply {
        step.apply(hdr, meta.step);
    }
}

control AmpmComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    Ipv4Checksum() ipv4_checksum;

    apply {
        ipv4_checksum.apply(hdr);
    }
}

control AmpmDeparser(packet_out packet, in headers_t hdr) {
    Ipv4Deparser() ipv4_deparser;

    apply {
        ipv4_deparser.apply(packet, hdr);
    }
}

V1Switch(
    AmpmParser(), AmpmVerifyChecksum(), AmpmIngress(), AmpmEgress(), AmpmComputeChecksum(),
    AmpmDeparser()) main;
