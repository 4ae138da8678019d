/* A TNA program for the fuzzer, with the copies, externs and parsers of the architecture in two pipes. */
#include <core.p4>
#ifdef TOFINO2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

header bridge_t { bit<8> kind; bit<8> rest; MirrorId_t session; @padding bit<(8 - MIRROR_ID_WIDTH % 8) % 8> pad; }
header frame_t { bit<8> op; bit<8> a; bit<16> b; bit<32> c; }
header option_t { bit<4> kind; bit<4> length; bit<8> value; }
header ip_t { bit<16> first; bit<16> sum; bit<32> last; }
header text_t { bit<8> length; varbit<128> bytes; }
header again_t { bit<16> number; bit<48> rest; }
struct headers_t {
    bridge_t bridge;
    frame_t frame;
    option_t[3] options;
    ip_t ip;
    text_t text;
}
struct metadata_t { bit<16> number; bit<8> color; bit<1> wrong; MirrorId_t session; bit<16> residue; }
struct report_t { bit<8> op; bit<16> number; }
struct pair_t { bit<32> first; bit<32> second; }

parser Frame(packet_in pkt, out headers_t hdr, inout metadata_t md) {
    value_set<bit<8>>(4) special;
    ParserCounter() counter;
    Checksum() ip_sum;
    state start {
        pkt.extract(hdr.frame);
        counter.set(hdr.frame.a);
        transition select(hdr.frame.op) {
            special: text;
            1: options;
            2: ip;
            3..9: text;
            default: accept;
        }
    }
    state options {
        pkt.extract(hdr.options.next);
        counter.decrement(1);
        transition select(counter.is_zero(), counter.is_negative()) {
            (false, false): options;
            (true, _): ip;
            default: reject;
        }
    }
    state ip {
        pkt.extract(hdr.ip);
        ip_sum.add(hdr.ip);
        md.wrong = (bit<1>)ip_sum.verify();
        transition select(hdr.ip.last) { 0 &&& 1: text; default: accept; }
    }
    state text {
        pkt.extract(hdr.text, (bit<32>)(pkt.lookahead<bit<8>>() & 0x1f) << 3);
        transition accept;
    }
}

parser IngressParser(packet_in pkt, out headers_t hdr, out metadata_t md,
                     out ingress_intrinsic_metadata_t ig) {
    Frame() frame;
    state start {
        md = {0, 0, 0, 0, 0};
        pkt.extract(ig);
        transition select(ig.resubmit_flag) { 1: again; 0: first; }
    }
    state again {
        again_t data = pkt.lookahead<again_t>();
        md.number = data.number;
        transition first;
    }
    state first {
        pkt.advance(PORT_METADATA_SIZE);
        frame.apply(pkt, hdr, md);
        transition accept;
    }
}

parser ShortParser(packet_in pkt, out headers_t hdr, out metadata_t md,
                   out ingress_intrinsic_metadata_t ig) {
    state start {
        md = {0, 0, 0, 0, 0};
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE + 16);
        pkt.extract(hdr.frame);
        transition accept;
    }
}

control Ingress(inout headers_t hdr, inout metadata_t md, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm)(bit<8> pipe) {
    Register<pair_t, bit<8>>(100, {3, 4}) pairs;
    RegisterAction<pair_t, bit<8>, bit<32>>(pairs) swap = {
        void apply(inout pair_t value, out bit<32> rv) {
            rv = value.first;
            if (value.second > hdr.frame.c) { value.first = value.second; }
            value.second = value.second + 1;
        }
    };
    Counter<bit<64>, bit<16>>(1000, CounterType_t.PACKETS_AND_BYTES) counter;
    Meter<bit<8>>(9, MeterType_t.BYTES) meter;
    DirectCounter<bit<64>>(CounterType_t.PACKETS) of_entry;
    Random<bit<3>>() choice;
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;
    ActionProfile(16) members;
    ActionSelector(members, hash, SelectorMode_t.FAIR, 8, 4) selector;

    action forward(PortId_t port, QueueId_t queue) { tm.ucast_egress_port = port; tm.qid = queue; }
    action flood(MulticastGroupId_t a, MulticastGroupId_t b) {
        tm.mcast_grp_a = a;
        tm.mcast_grp_b = b;
        tm.rid = md.number;
    }
    action mirror(MirrorId_t session) { md.session = session; dprsr.mirror_type = 1; }
    action resubmit() { dprsr.resubmit_type = 2; md.number = md.number + 1; }
    // one of 8 recirculated packets leaves, so that none circulates without end
    action recirculate(bit<1> other) {
        tm.ucast_egress_port = choice.get() == 0 ? 9w2 : other == 1 ? 9w196 : 9w68;
    }
    action learn() { dprsr.digest_type = 3; }
    action discard(bit<3> how) { dprsr.drop_ctl = how; }
    action bypass() { tm.bypass_egress = 1; tm.copy_to_cpu = 1; }
    action bridge() { hdr.bridge.setValid(); hdr.bridge.kind = 7; }
    action set_a(bit<8> a) { hdr.frame.a = a + pipe; }

    table first {
        key = { hdr.frame.op: exact; hdr.text.isValid(): exact; }
        actions = { forward; flood; recirculate; bypass; discard; }
        const default_action = forward(1, 0);
        counters = of_entry;
    }
    table second {
        key = { hdr.frame.a: exact; }
        actions = { mirror; resubmit; learn; bridge; }
        const default_action = bridge();
    }
    table third {
        key = { hdr.frame.b: lpm; hdr.frame.c: selector; md.number: selector; }
        actions = { set_a; discard; }
        implementation = selector;
    }
    apply {
        first.apply();
        // a packet is resubmitted a few times, but not without end
        if (ig.resubmit_flag == 0 || choice.get() != 0) { second.apply(); }
        third.apply();
        md.color = meter.execute(hdr.frame.a);
        counter.count(hdr.frame.b, (bit<32>)hdr.frame.a);
        hdr.frame.c = swap.execute(hdr.frame.a) + (bit<32>)hash.get({hdr.frame.b, hdr.ip});
#ifdef TOFINO2
        dprsr.mirror_io_select = hdr.frame.b[0:0];
#endif
        if (pipe == 2 && prsr.parser_err != 0) { dprsr.drop_ctl = 1; }
    }
}

control IngressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t md,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Mirror(1) mirror;
    Resubmit(2) resubmit;
    Digest<report_t>(3) digest;
    Checksum() sum;
    apply {
        if (dprsr.mirror_type == 1) { mirror.emit<bridge_t>(md.session, {5, md.color, md.session, 0}); }
        if (dprsr.resubmit_type == 2) { resubmit.emit<again_t>({md.number, 0}); }
        if (dprsr.digest_type == 3) { digest.pack({hdr.frame.op, md.number}); }
        if (hdr.ip.isValid()) { hdr.ip.sum = sum.update({hdr.ip.first, hdr.ip.last}); }
        pkt.emit(hdr);
    }
}

parser EgressParser(packet_in pkt, out headers_t hdr, out metadata_t md,
                    out egress_intrinsic_metadata_t eg) {
    Frame() frame;
    state start {
        md = {0, 0, 0, 0, 0};
        pkt.extract(eg);
        transition select(pkt.lookahead<bit<8>>()) {
            5: bridged;
            7: bridged;
            default: rest;
        }
    }
    state bridged { pkt.extract(hdr.bridge); transition rest; }
    state rest { frame.apply(pkt, hdr, md); transition accept; }
}

control Egress(inout headers_t hdr, inout metadata_t md, in egress_intrinsic_metadata_t eg,
               in egress_intrinsic_metadata_from_parser_t prsr,
               inout egress_intrinsic_metadata_for_deparser_t dprsr,
               inout egress_intrinsic_metadata_for_output_port_t oport) {
    Random<bit<8>>() random;
    Register<bit<16>, bit<16>>(64) depths;
    apply {
        depths.write((bit<16>)eg.egress_port, (bit<16>)eg.deq_qdepth);
        if (hdr.bridge.isValid() && hdr.bridge.kind != 5 && hdr.frame.op > 100) {
            md.session = (MirrorId_t)hdr.frame.a;
            dprsr.mirror_type = 1;
            dprsr.drop_ctl = hdr.frame.b[2:0];
#ifdef TOFINO2
            dprsr.mirror_io_select = hdr.frame.c[0:0];
#endif
        }
        if (random.get() > 100) { hdr.bridge.setInvalid(); }
        if (hdr.options[1].isValid()) { hdr.options.pop_front(1); }
        hdr.frame.b = eg.pkt_length;
    }
}

control EgressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t md,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {
    Mirror(1) mirror;
    apply {
        if (dprsr.mirror_type == 1) { mirror.emit<bridge_t>(md.session, {5, 0, md.session, 0}); }
        pkt.emit(hdr);
    }
}

#ifdef TOFINO2
Pipeline(IngressParser(), Ingress(1), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) a;
Pipeline(ShortParser(), Ingress(2), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) b;
Switch(a, b) main;
#else
@default_portmap(0, 1) IngressParsers(IngressParser(), ShortParser()) ingress_parsers;
EgressParsers(EgressParser()) egress_parsers;
MultiParserPipeline(ingress_parsers, Ingress(1), IngressDeparser(),
                    egress_parsers, Egress(), EgressDeparser()) a;
MultiParserPipeline(ingress_parsers, Ingress(2), IngressDeparser(),
                    egress_parsers, Egress(), EgressDeparser()) b;
MultiParserSwitch(a, b) main;
#endif
