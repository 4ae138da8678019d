/* A TNA program with two pipelines, which differ in one constant. */
#include <core.p4>
#include <tna.p4>

header frame_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { frame_t frame; }
struct metadata_t { }

parser IngressParser(packet_in pkt, out headers_t hdr, out metadata_t md,
                     out ingress_intrinsic_metadata_t ig) {
    state start {
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE);
        pkt.extract(hdr.frame);
        transition accept;
    }
}
control Ingress(inout headers_t hdr, inout metadata_t md, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm)(bit<16> number) {
    Register<bit<32>, PortId_t>(512, 7) seen;
    action forward(PortId_t port) {
        tm.ucast_egress_port = port;
        hdr.frame.type = number;
        seen.write(ig.ingress_port, 1);
    }
    table l2 {
        key = { hdr.frame.dst: exact; }
        actions = { forward; NoAction; }
        default_action = NoAction();
    }
    apply { l2.apply(); }
}
control IngressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t md) {
    apply { pkt.emit(hdr); }
}
parser EgressParser(packet_in pkt, out headers_t hdr, out metadata_t md,
                    out egress_intrinsic_metadata_t eg) {
    state start { pkt.extract(eg); transition accept; }
}
control Egress(inout headers_t hdr, inout metadata_t md) { apply { } }
control EgressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t md) { apply { } }

Pipeline(IngressParser(), Ingress(10), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) first;
Pipeline(IngressParser(), Ingress(20), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) second;
Switch(first, second) main;
