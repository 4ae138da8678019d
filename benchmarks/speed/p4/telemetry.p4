/* A program as large as that of an INT transit switch. It forwards packets, and inserts up to eight
 * words of metadata next to the words of earlier switches. Two tables select the words by the
 * instruction bitmap. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

header shim_t {
    bit<8> type;
    bit<8> words;
    bit<16> next_port;
}

header instructions_t {
    bit<4> version;
    bit<12> flags;
    bit<8> words_a_hop;
    bit<8> hops_left;
    bit<4> first;
    bit<4> second;
    bit<24> reserved;
}

header switch_id_t { bit<32> id; }
header ports_t { bit<16> ingress; bit<16> egress; }
header latency_t { bit<32> us; }
header queue_t { bit<8> id; bit<24> depth; }
header times_t { bit<64> ingress_us; bit<64> egress_us; }
header checksum_t { bit<32> of_flow; }

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    shim_t shim;
    instructions_t instructions;
    switch_id_t switch_id;
    ports_t ports;
    latency_t latency;
    queue_t queue;
    times_t times;
    checksum_t flow;
}

struct metadata_t {
    bit<32> switch_id;
    bit<32> flow;
    bit<8> words;
    bit<16> bytes;
    bool transit;
}

parser TelemetryParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            17: udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            5000: shim;
            default: accept;
        }
    }
    state shim {
        packet.extract(hdr.shim);
        packet.extract(hdr.instructions);
        transition accept;
    }
}

control TelemetryVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TelemetryIngress(inout headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t standard_metadata) {
    counter(512, CounterType.packets_and_bytes) received;

    action drop() {
        mark_to_drop(standard_metadata);
    }
    action forward(bit<48> mac_addr, bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac_addr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action transit(bit<32> id) {
        meta.switch_id = id;
        meta.transit = true;
    }
    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        const entries = {
            0x0a000000 &&& 0xfff80000: forward(0x020000000002, 2);
            0x0a080000 &&& 0xfff80000: forward(0x020000000002, 2);
            0xc0a80000 &&& 0xffff0000: forward(0x020000000001, 1);
        }
    }
    table watched {
        key = {
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.udp.dst_port: ternary;
        }
        actions = { transit; NoAction; }
        default_action = NoAction();
        const entries = {
            (0xc0a80000 &&& 0xffff0000, _, 5000): transit(7);
            (_, 0xc0a80000 &&& 0xffff0000, 5000): transit(7);
        }
    }

    apply {
        received.count((bit<32>)standard_metadata.ingress_port);
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            routes.apply();
            if (hdr.instructions.isValid() && hdr.instructions.hops_left > 0) {
                watched.apply();
            }
        } else {
            drop();
        }
    }
}

control TelemetryEgress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    register<bit<32>>(1024) deepest;

    action add_switch_id() {
        hdr.switch_id.setValid();
        hdr.switch_id.id = meta.switch_id;
        meta.words = meta.words + 1;
    }
    action add_ports() {
        hdr.ports.setValid();
        hdr.ports.ingress = (bit<16>)standard_metadata.ingress_port;
        hdr.ports.egress = (bit<16>)standard_metadata.egress_port;
        meta.words = meta.words + 1;
    }
    action add_latency() {
        hdr.latency.setValid();
        hdr.latency.us = standard_metadata.deq_timedelta;
        meta.words = meta.words + 1;
    }
    action add_queue() {
        hdr.queue.setValid();
        hdr.queue.id = 0;
        hdr.queue.depth = (bit<24>)standard_metadata.enq_qdepth;
        meta.words = meta.words + 1;
    }
    action add_times() {
        hdr.times.setValid();
        hdr.times.ingress_us = (bit<64>)standard_metadata.ingress_global_timestamp;
        hdr.times.egress_us = (bit<64>)standard_metadata.egress_global_timestamp;
        meta.words = meta.words + 4;
    }
    action add_flow() {
        hdr.flow.setValid();
        hdr.flow.of_flow = meta.flow;
        meta.words = meta.words + 1;
    }
    action none() { }
    action i1() { add_queue(); }
    action i2() { add_latency(); }
    action i3() { add_latency(); add_queue(); }
    action i12() { add_switch_id(); add_ports(); }
    action i15() { add_switch_id(); add_ports(); add_latency(); add_queue(); }
    action j8() { add_times(); }
    action j12() { add_times(); add_flow(); }
    table first {
        key = { hdr.instructions.first: exact; }
        actions = { none; i1; i2; i3; i12; i15; }
        default_action = none();
        const entries = {
            1: i1();
            2: i2();
            3: i3();
            12: i12();
            15: i15();
        }
    }
    table second {
        key = { hdr.instructions.second: exact; }
        actions = { none; j8; j12; }
        default_action = none();
        const entries = {
            8: j8();
            12: j12();
        }
    }

    apply {
        if (meta.transit) {
            hash(meta.flow, HashAlgorithm.crc32, 32w0,
                 { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol, hdr.udp.src_port,
                   hdr.udp.dst_port }, 32w0xffffffff);
            bit<32> depth;
            deepest.read(depth, meta.flow & 1023);
            if ((bit<32>)standard_metadata.enq_qdepth > depth) {
                deepest.write(meta.flow & 1023, (bit<32>)standard_metadata.enq_qdepth);
            }
            first.apply();
            second.apply();
            meta.bytes = (bit<16>)meta.words << 2;
            hdr.instructions.hops_left = hdr.instructions.hops_left - 1;
            hdr.shim.words = hdr.shim.words + meta.words;
            hdr.ipv4.total_length = hdr.ipv4.total_length + meta.bytes;
            hdr.udp.length = hdr.udp.length + meta.bytes;
            hdr.udp.checksum = 0;
        }
    }
}

control TelemetryCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp,
            hdr.ipv4.ecn, hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.flags,
            hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr,
            hdr.ipv4.dst_addr }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control TelemetryDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TelemetryParser(), TelemetryVerify(), TelemetryIngress(), TelemetryEgress(),
         TelemetryCompute(), TelemetryDeparser()) main;
