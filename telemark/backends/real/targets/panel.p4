/* Panel of a bmv2 switch. Forwards frames between port P, which leads to the network, and port P +
 * 256, which leads to bmv2's port P. The panel's ports have links, captures and drop counters; bmv2
 * lacks these. */
#include <core.p4>
#include <v1model.p4>

struct none_t { }

parser PanelParser(
    packet_in packet, out none_t hdr, inout none_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        transition accept;
    }
}

control PanelChecksum(inout none_t hdr, inout none_t meta) {
    apply { }
}

control PanelIngress(
    inout none_t hdr, inout none_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = standard_metadata.ingress_port ^ 256;
    }
}

control PanelEgress(
    inout none_t hdr, inout none_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control PanelDeparser(packet_out packet, in none_t hdr) {
    apply { }
}

V1Switch(
    PanelParser(), PanelChecksum(), PanelIngress(), PanelEgress(), PanelChecksum(),
    PanelDeparser()) main;
