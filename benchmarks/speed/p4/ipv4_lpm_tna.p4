/* The router of ipv4_lpm.p4, written for TNA. */
#include <core.p4>
#include <tna.p4>

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

struct metadata_t { bool wrong_checksum; }
struct no_headers_t {}
struct no_metadata_t {}

#define IPV4_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, \
    hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr }

parser LpmParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                 out ingress_intrinsic_metadata_t ig_intr_md) {
    Checksum() checksum;
    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        meta.wrong_checksum = false;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        checksum.add(hdr.ipv4);
        meta.wrong_checksum = checksum.verify();
        transition accept;
    }
}

control LpmIngress(inout headers_t hdr, inout metadata_t meta,
                   in ingress_intrinsic_metadata_t ig_intr_md,
                   in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                   inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                   inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    action drop() {
        ig_dprsr_md.drop_ctl = 1;
    }
    action forward(bit<48> mac_addr, PortId_t port) {
        ig_tm_md.ucast_egress_port = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac_addr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 16384;
    }
    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && !meta.wrong_checksum) {
            routes.apply();
        } else {
            drop();
        }
    }
}

control LpmDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                    in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Checksum() checksum;
    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = checksum.update(IPV4_FIELDS);
        }
        packet.emit(hdr);
    }
}

parser EmptyParser(packet_in packet, out no_headers_t hdr, out no_metadata_t meta,
                   out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        transition accept;
    }
}

control EmptyEgress(inout no_headers_t hdr, inout no_metadata_t meta,
                    in egress_intrinsic_metadata_t eg_intr_md,
                    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    apply { }
}

control EmptyDeparser(packet_out packet, inout no_headers_t hdr, in no_metadata_t meta,
                      in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    apply { }
}

Pipeline(LpmParser(), LpmIngress(), LpmDeparser(), EmptyParser(), EmptyEgress(),
         EmptyDeparser()) pipe;
Switch(pipe) main;
