/* An IPv4 router: the longest prefix decides, and of several next hops a hash of the flow. Packets
 * with IPv4 options are dropped: the header checksum would cover what is not parsed. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
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

header ports_t {  // the first four bytes of both UDP and TCP
    bit<16> src_port;
    bit<16> dst_port;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    ports_t ports;
}

struct metadata_t {
    bit<16> group;
    bit<16> member;
}

parser RouterParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // Options stay in the payload; fragments but the first have no ports.
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, 6): parse_ports;
            (5, 0, 17): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control RouterVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control RouterIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<16> src_port = 0;  // of packets that have ports
    bit<16> dst_port = 0;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    /* To the neighbour with this MAC address, behind this port. */
    action send(bit<48> mac_addr, bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac_addr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    /* To one of `count` next hops. The salt differs from switch to switch: else all would choose
     * alike, and flows that one switch brought together would never be parted by the next. */
    action spread(bit<16> group, bit<16> count, bit<16> salt) {
        meta.group = group;
        hash(
            meta.member, HashAlgorithm.crc32, 16w0,
            {
                salt, hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol, src_port, dst_port
            },
            count);
    }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { send; spread; drop; }
        default_action = drop();
        size = 4096;
    }

    table next_hops {
        key = {
            meta.group: exact;
            meta.member: exact;
        }
        actions = { send; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        if (hdr.ports.isValid()) {
            src_port = hdr.ports.src_port;
            dst_port = hdr.ports.dst_port;
        }
        if (hdr.ipv4.isValid() && hdr.ipv4.ihl == 5 && hdr.ipv4.ttl > 1) {
            switch (routes.apply().action_run) {
                spread: { next_hops.apply(); }
            }
        } else {
            drop();
        }
    }
}

control RouterEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control RouterComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            {
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length,
                hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
                hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr
            },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(
    RouterParser(), RouterVerifyChecksum(), RouterIngress(), RouterEgress(),
    RouterComputeChecksum(), RouterDeparser()) main;
