/* A TNA program. It has one object of each kind that a controller sees in P4Runtime. */
#include <core.p4>
#include <tna.p4>

header frame_t { bit<48> dst; bit<48> src; bit<16> type; }
header mirror_t { bit<8> kind; bit<8> rest; }
struct headers_t { mirror_t mirror; frame_t frame; }
struct metadata_t { MirrorId_t session; }
struct seen_t { bit<32> packets; bit<16> type; bool is_new; }
struct report_t { bit<48> src; PortId_t port; }

parser IngressParser(packet_in pkt, out headers_t hdr, out metadata_t md,
                     out ingress_intrinsic_metadata_t ig) {
    state start {
        md.session = 0;
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE);
        pkt.extract(hdr.frame);
        transition accept;
    }
}
control Ingress(inout headers_t hdr, inout metadata_t md, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS) per_port;
    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) per_entry;
    Register<seen_t, PortId_t>(512) seen;
    RegisterAction<seen_t, PortId_t, bit<1>>(seen) see = {
        void apply(inout seen_t value) {
            value.packets = value.packets + 1;
            value.type = hdr.frame.type;
            value.is_new = value.packets == 1;
        }
    };
    Lpf<bit<16>, PortId_t>(512) load;
    action forward(PortId_t port, MirrorId_t session) {
        per_entry.count();
        tm.ucast_egress_port = port;
        md.session = session;
        dprsr.mirror_type = 1;
    }
    action report() { per_entry.count(); dprsr.digest_type = 1; dprsr.drop_ctl = 1; }
    table l2 {
        key = { hdr.frame.dst: ternary; }
        actions = { forward; report; }
        const default_action = report();
        counters = per_entry;
        size = 16;
    }
    apply {
        per_port.count(ig.ingress_port);
        see.execute(ig.ingress_port);
        if (hdr.frame.dst == 0) { hdr.frame.type = load.execute(hdr.frame.type, ig.ingress_port); }
        l2.apply();
    }
}
control IngressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t md,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr,
                        in ingress_intrinsic_metadata_t ig) {
    Digest<report_t>(1) reports;
    Mirror(1) mirror;
    apply {
        if (dprsr.digest_type == 1) { reports.pack({hdr.frame.src, ig.ingress_port}); }
        if (dprsr.mirror_type == 1) { mirror.emit<mirror_t>(md.session, {0xff, 0xaa}); }
        pkt.emit(hdr.frame);
    }
}
parser EgressParser(packet_in pkt, out headers_t hdr, out metadata_t md,
                    out egress_intrinsic_metadata_t eg) {
    state start { md.session = 0; pkt.extract(eg); transition accept; }
}
control Egress(inout headers_t hdr, inout metadata_t md, in egress_intrinsic_metadata_t eg,
               in egress_intrinsic_metadata_from_parser_t prsr,
               inout egress_intrinsic_metadata_for_deparser_t dprsr,
               inout egress_intrinsic_metadata_for_output_port_t oport) {
    apply { }
}
control EgressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t md) { apply { } }

Pipeline(IngressParser(), Ingress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
