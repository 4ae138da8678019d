// Objects of P4Runtime that control.p4 lacks: profiles, meters, digests, value sets, idle timeouts.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {
    bit<2> direct_colour;
    bit<2> colour;
    bit<1> special;
}

struct learnt_t {
    bit<48> source;
    bit<9>  port;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(4) special_types;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            special_types: special;
            default: accept;
        }
    }
    state special {
        meta.special = 1;
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    meter(4, MeterType.packets) port_meter;
    direct_meter<bit<2>>(MeterType.packets) source_meter;

    action drop() { mark_to_drop(standard_metadata); }
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    action known() { source_meter.read(meta.direct_colour); }
    action learn() {
        digest<learnt_t>(1, { hdr.ethernet.source, standard_metadata.ingress_port });
    }
    action copy() { clone(CloneType.I2E, 32w5); }

    table sources {
        key = { hdr.ethernet.source: exact; }
        actions = { known; learn; }
        default_action = learn();
        meters = source_meter;
        support_timeout = true;
        size = 128;
    }
    table direct {
        key = { hdr.ethernet.destination: exact; }
        actions = { drop; forward; }
        @name("direct.implementation")
        implementation = action_profile(16);
        size = 64;
    }
    table balanced {
        key = {
            hdr.ethernet.destination: exact;
            hdr.ethernet.source: selector;
        }
        actions = { drop; forward; }
        @name("balanced.implementation")
        @max_group_size(16)
        implementation = action_selector(HashAlgorithm.crc16, 32w32, 32w16);
        size = 64;
    }
    table copied {
        key = { hdr.ethernet.type: exact; }
        actions = { copy; NoAction; }
        default_action = NoAction();
    }

    apply {
        port_meter.execute_meter((bit<32>) standard_metadata.ingress_port, meta.colour);
        sources.apply();
        if (!direct.apply().hit) {
            balanced.apply();
        }
        copied.apply();
        if (meta.colour == 2 || meta.direct_colour == 2) {
            drop();
        }
        if (meta.special == 1) {
            standard_metadata.egress_spec = 9;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control MyCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(ParserImpl(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), DeparserImpl()) main;
