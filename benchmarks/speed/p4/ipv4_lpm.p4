/* A textbook IPv4 router: longest prefix match, TTL, check and update of the header checksum. MATCH
 * selects another match kind. With ENTRIES, the table has constant entries. Otherwise, the table is
 * empty at first, and measurements fill it. */
#include <core.p4>
#include <v1model.p4>

#ifndef MATCH
#define MATCH lpm
#endif

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> type;
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

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t {}

#define IPV4_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, \
    hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr }

parser LpmParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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
        transition accept;
    }
}

control LpmVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control LpmIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }
    action forward(bit<48> mac_addr, bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac_addr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key = { hdr.ipv4.dst_addr: MATCH; }
        actions = { forward; drop; }
        default_action = drop();
        size = 16384;
#ifdef ENTRIES
        const entries = {
            0xc0a80100 &&& 0xffffff00: forward(0x020000000001, 1);
            0x0a000000 &&& 0xfffe0000: forward(0x020000000002, 2);
            0x0a020000 &&& 0xfffe0000: forward(0x020000000002, 2);
            0x0a040000 &&& 0xfffe0000: forward(0x020000000002, 2);
            0x0a060000 &&& 0xfffe0000: forward(0x020000000002, 2);
            0x0a080000 &&& 0xfffe0000: forward(0x020000000002, 2);
            0x0a0a0000 &&& 0xfffe0000: forward(0x020000000002, 2);
            0x0a0c0000 &&& 0xfffe0000: forward(0x020000000002, 2);
            0x0a0e0000 &&& 0xffff0000: forward(0x020000000002, 2);
            0x0a0f0000 &&& 0xffff0000: forward(0x020000000002, 2);
        }
#endif
    }
    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && standard_metadata.checksum_error == 0) {
            routes.apply();
        } else {
            drop();
        }
    }
}

control LpmEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply { }
}

control LpmCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control LpmDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(LpmParser(), LpmVerify(), LpmIngress(), LpmEgress(), LpmCompute(), LpmDeparser()) main;
