// A TNA program with each kind of table that BfRt scripts use.
#include <core.p4>
#include <tna.p4>

header probe_t { bit<48> mac; bit<32> address; bit<16> number; }
struct headers_t { probe_t probe; }
struct metadata_t {}
struct flow_t { bit<48> mac; }
struct pair_t { bit<32> low; bit<32> high; }

parser IP(packet_in pkt, out headers_t hdr, out metadata_t md, out ingress_intrinsic_metadata_t ig) {
    state start {
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE);
        pkt.extract(hdr.probe);
        transition accept;
    }
}

control Ingress(inout headers_t hdr, inout metadata_t md, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    Register<bit<32>, bit<8>>(16, 5) plain;
    Register<pair_t, bit<8>>(16) pairs;
    Counter<bit<64>, bit<8>>(16, CounterType_t.PACKETS_AND_BYTES) counts;
    Meter<bit<8>>(16, MeterType_t.BYTES) pace;
    RegisterAction<bit<32>, bit<8>, bit<32>>(plain) add = {
        void apply(inout bit<32> value, out bit<32> rv) { value = value + 1; rv = value; }
    };
    RegisterAction<pair_t, bit<8>, bit<32>>(pairs) mark = {
        void apply(inout pair_t value, out bit<32> rv) { value.low = value.low + 1; rv = value.high; }
    };
    action send(PortId_t port) { tm.ucast_egress_port = port; }
    action copy(MulticastGroupId_t group) { tm.mcast_grp_a = group; }
    action drop() { dprsr.drop_ctl = 1; }
    table exact_t {
        key = { hdr.probe.mac: exact; }
        actions = { send; copy; drop; }
        default_action = drop();
    }
    table masked_t {
        key = { hdr.probe.address: ternary; hdr.probe.number: range; }
        actions = { send; drop; NoAction; }
        default_action = NoAction();
    }
    table prefix_t {
        key = { hdr.probe.address: lpm; }
        actions = { send; NoAction; }
        default_action = NoAction();
    }
    ActionProfile(16) members;
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;
    ActionSelector(members, hash, SelectorMode_t.FAIR, 8, 4) selector;
    table selected_t {
        key = { hdr.probe.mac: exact; hdr.probe.address: selector; }
        actions = { send; drop; }
        implementation = selector;
    }
    ActionProfile(16) single;
    table indirect_t {
        key = { hdr.probe.mac: exact; }
        actions = { send; drop; }
        implementation = single;
    }
    apply {
        hdr.probe.number = (bit<16>) (add.execute(1) + mark.execute(2)) + (bit<16>) pace.execute(3);
        counts.count(4);
        dprsr.digest_type = 1;
        exact_t.apply();
        masked_t.apply();
        prefix_t.apply();
        selected_t.apply();
        indirect_t.apply();
    }
}

control ID(packet_out pkt, inout headers_t hdr, in metadata_t md,
           in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Digest<flow_t>() flow;
    apply {
        if (dprsr.digest_type == 1) { flow.pack({hdr.probe.mac}); }
        pkt.emit(hdr);
    }
}

parser EP(packet_in pkt, out headers_t hdr, out metadata_t md, out egress_intrinsic_metadata_t eg) {
    state start { pkt.extract(eg); transition accept; }
}
control EC(inout headers_t hdr, inout metadata_t md, in egress_intrinsic_metadata_t eg,
           in egress_intrinsic_metadata_from_parser_t prsr,
           inout egress_intrinsic_metadata_for_deparser_t dprsr,
           inout egress_intrinsic_metadata_for_output_port_t oport) {
    apply {}
}
control ED(packet_out pkt, inout headers_t hdr, in metadata_t md,
           in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply {}
}
Pipeline(IP(), Ingress(), ID(), EP(), EC(), ED()) pipe;
Switch(pipe) main;
