/* Forwards IPv4 packets by longest prefix, and then applies the table `gate`, whose keys have all
 * match kinds. Floods other frames. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<16> fragment;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { }

parser GateParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 { packet.extract(hdr.ipv4); transition accept; }
}
control GateVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control GateIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() { mark_to_drop(std); }
    action flood() { std.mcast_grp = 1; }
    action mirror() { clone(CloneType.I2E, 7); }
    action forward(bit<48> mac, bit<9> port) {
        hdr.ethernet.dst = mac;
        std.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; flood; }
        default_action = drop();
    }
    table gate {
        key = {
            std.ingress_port: exact; hdr.ipv4.src: ternary; hdr.ipv4.ttl: range;
            hdr.ipv4.protocol: optional;
        }
        actions = { drop; mirror; NoAction; }
        default_action = NoAction();
    }
    apply {
        if (hdr.ipv4.isValid()) { routes.apply(); gate.apply(); } else { flood(); }
    }
}
control GateEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { if (std.instance_type == 5 && std.egress_port == std.ingress_port) { mark_to_drop(std); } }
}
control GateCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control GateDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); }
}
V1Switch(GateParser(), GateVerify(), GateIngress(), GateEgress(), GateCompute(), GateDeparser()) main;
