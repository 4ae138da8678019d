// Translated types: controllers see strings, or numbers of another width.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", string)
type bit<9> port_t;

@p4runtime_translation("", string)
@p4runtime_translation_mappings({ {"", 0}, {"guests \"A\"", 0x3} })
type bit<3> vrf_t;

@p4runtime_translation("example.org/next_hop", string)
type bit<10> next_hop_t;

@p4runtime_translation("example.org/interface", 32)
type bit<12> interface_t;

@p4runtime_translation("example.org/label", bit<8>)
@p4runtime_translation_mappings({ {7, 8w1} })
type bit<16> label_t;

@p4runtime_translation("example.org/same", 16)
type bit<16> same_t;

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    @padding bit<7> unused;
}

@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    bit<1> is_raw;
    @padding bit<6> unused;
}

header longer_t {  // begins with the same fields as packet_in_t
    port_t ingress_port;
    bit<7> unused;
    bit<16> more;
}

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    longer_t longer;
    ethernet_t ethernet;
}

struct metadata_t {
    vrf_t vrf;
    next_hop_t next_hop;
    interface_t interface;
    label_t label;
    same_t same;
}

struct seen_t {
    port_t port;
    interface_t interface;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            255: from_cpu;
            default: ethernet;
        }
    }
    state from_cpu {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets) route_counter;
    register<port_t>(4) ports;
    action_selector(HashAlgorithm.crc32, 64, 16) hops;

    action drop() { mark_to_drop(standard_metadata); }
    action set_vrf(vrf_t vrf) { meta.vrf = vrf; }
    action set_next_hop(next_hop_t next_hop) { meta.next_hop = next_hop; }
    action set_interface(interface_t interface, label_t label) {
        meta.interface = interface;
        meta.label = label;
    }
    action send(port_t port) { standard_metadata.egress_spec = (bit<9>)port; }
    action learn() {
        digest<seen_t>(1, { (port_t)standard_metadata.ingress_port, meta.interface });
    }
    action punt() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = (port_t)standard_metadata.ingress_port;
        hdr.packet_in.unused = 0;
        standard_metadata.egress_spec = 255;
    }
    action flood() { standard_metadata.mcast_grp = 1; }

    table vrfs {
        key = {
            hdr.ethernet.source: ternary;
            (port_t)standard_metadata.ingress_port: optional @name("in_port");
        }
        actions = { set_vrf; punt; }
        default_action = set_vrf((vrf_t)5);
    }
    table routes {
        key = { meta.vrf: exact; hdr.ethernet.destination: lpm; }
        actions = { set_next_hop; flood; @defaultonly drop; }
        default_action = drop;
        counters = route_counter;
    }
    table hops_of {
        key = { meta.next_hop: exact; hdr.ethernet.source: selector; }
        actions = { set_interface; NoAction; }
        implementation = hops;
    }
    table interfaces {
        key = { meta.interface: exact; }
        actions = { send; learn; }
    }
    table ports_of {
        key = { (port_t)standard_metadata.egress_spec: exact @name("port"); }
        actions = { send; @defaultonly NoAction; }
        const entries = {
            (port_t)510: send((port_t)511);
        }
    }
    table labels {
        key = {
            meta.label: ternary;
            meta.interface: lpm;
            meta.label: range @name("label_range");
            meta.same: ternary;
        }
        actions = { send; NoAction; }
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = (bit<9>)hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            vrfs.apply();
            if (!hdr.packet_in.isValid() && routes.apply().hit) {
                ports.write(0, (port_t)standard_metadata.ingress_port);
                hops_of.apply();
                interfaces.apply();
                labels.apply();
                ports_of.apply();
            }
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control MyCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.longer);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(ParserImpl(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
