/* Marks ECN-capable packets whose queue contains at least ECN_THRESHOLD packets (RFC 3168, 5). The
 * exercise `ecn` of p4lang/tutorials has the same rule. DCTCP needs this rule (RFC 8257, 3.1). */
#include "switch.p4"

const bit<19> ECN_THRESHOLD = 10;  // in packets
const bit<2> NOT_CAPABLE = 0;
const bit<2> CONGESTION_EXPERIENCED = 3;

struct metadata_t { }

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

parser EcnParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control EcnVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EcnIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    LpmForwarding() forwarding;

    apply {
        if (hdr.ipv4.isValid()) {
            forwarding.apply(hdr.ethernet, hdr.ipv4, standard_metadata);
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control EcnEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action mark_ecn() {
        bit<16> before = hdr.ipv4.version ++ hdr.ipv4.ihl ++ hdr.ipv4.dscp ++ hdr.ipv4.ecn;
        hdr.ipv4.ecn = CONGESTION_EXPERIENCED;
        bit<16> after = hdr.ipv4.version ++ hdr.ipv4.ihl ++ hdr.ipv4.dscp ++ hdr.ipv4.ecn;
        hdr.ipv4.checksum = changed_checksum(hdr.ipv4.checksum, before, after);
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ecn != NOT_CAPABLE
            && standard_metadata.enq_qdepth >= ECN_THRESHOLD) {
            mark_ecn();
        }
    }
}

control EcnComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }  // see changed_checksum
}

control EcnDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(
    EcnParser(), EcnVerifyChecksum(), EcnIngress(), EcnEgress(), EcnComputeChecksum(),
    EcnDeparser()) main;
