// A program for the P4Runtime tests: a table of each match kind, counters, registers, a CPU port.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 255;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> total_length;
    bit<16> identification;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> padding;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
    ipv4_t       ipv4;
}

struct metadata_t { }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets_and_bytes) port_counter;
    counter(4, CounterType.packets) packet_counter;
    direct_counter(CounterType.packets_and_bytes) route_counter;
    register<bit<48>>(8) last_seen;
    register<bit<128>>(4) wide;

    action drop() { mark_to_drop(standard_metadata); }
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    action multicast(bit<16> group) { standard_metadata.mcast_grp = group; }
    // The wide parameter separates the other two: no single instruction of a CPU can write both.
    action stamp(bit<9> port, bit<48> first, bit<2048> between, bit<48> second) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.destination = first;
        hdr.ethernet.source = second;
    }
    action to_cpu(bit<7> reason) {
        standard_metadata.egress_spec = CPU_PORT;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in.reason = reason;
    }

    table route {
        key = { hdr.ipv4.destination: lpm; }
        actions = { drop; forward; multicast; to_cpu; @defaultonly NoAction; }
        default_action = drop();
        counters = route_counter;
        size = 64;
    }
    table switching {
        key = { hdr.ethernet.destination: exact; }
        actions = { forward; multicast; stamp; to_cpu; @tableonly drop; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table acl {
        key = {
            hdr.ipv4.source: ternary;
            hdr.ipv4.protocol: optional;
            hdr.ipv4.ttl: range;
            standard_metadata.ingress_port: exact;
        }
        actions = { drop; NoAction; }
        const default_action = NoAction();
        size = 1024;
    }
    table fixed {
        key = { hdr.ethernet.type: exact; }
        actions = { drop; NoAction; }
        const entries = {
            0x88cc: drop();
        }
        default_action = NoAction();
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            port_counter.count((bit<32>) standard_metadata.ingress_port);
            packet_counter.count(0);
            last_seen.write(0, standard_metadata.ingress_global_timestamp);
            wide.write(0, hdr.ethernet.source ++ hdr.ethernet.destination ++ 32w1);
            fixed.apply();
            if (hdr.ipv4.isValid()) {
                route.apply();
                acl.apply();
            } else {
                switching.apply();
            }
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) { apply { } }

control MyCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(ParserImpl(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), DeparserImpl()) main;
