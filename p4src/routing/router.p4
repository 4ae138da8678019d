/* An IPv4 router: the longest prefix decides, and of several next hops a hash of the flow. */
#include "../include/headers.p4"

struct metadata_t {
    bit<16> group;
    bit<16> member;
}

parser RouterParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    Ipv4Parser() ipv4_parser;

    state start {
        ipv4_parser.apply(packet, hdr);
        transition accept;
    }
}

control RouterVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control RouterIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
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
                salt, hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
                hdr.ports.src_port, hdr.ports.dst_port
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
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
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
    Ipv4Checksum() ipv4_checksum;

    apply {
        ipv4_checksum.apply(hdr);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    Ipv4Deparser() ipv4_deparser;

    apply {
        ipv4_deparser.apply(packet, hdr);
    }
}

V1Switch(
    RouterParser(), RouterVerifyChecksum(), RouterIngress(), RouterEgress(),
    RouterComputeChecksum(), RouterDeparser()) main;
