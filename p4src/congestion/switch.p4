/* Common part of the programs in this folder: IPv4 forwarding by longest prefix. The table and the
 * action have the same names as in the exercises of p4lang/tutorials. So one controller can fill
 * the tables of both. The checksum of the IPv4 header is updated incrementally, so options may stay
 * in the payload. */
#ifndef TELEMARK_CONGESTION_SWITCH_P4
#define TELEMARK_CONGESTION_SWITCH_P4

#include "../include/headers.p4"

control LpmForwarding(
    inout ethernet_t ethernet, inout ipv4_t ipv4, inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action ipv4_forward(bit<48> dstAddr, bit<9> port) {
        standard_metadata.egress_spec = port;
        ethernet.src_addr = ethernet.dst_addr;
        ethernet.dst_addr = dstAddr;
        bit<16> before = ipv4.ttl ++ ipv4.protocol;
        ipv4.ttl = ipv4.ttl - 1;
        bit<16> after = ipv4.ttl ++ ipv4.protocol;
        ipv4.checksum = changed_checksum(ipv4.checksum, before, after);
    }

    table ipv4_lpm {
        key = { ipv4.dst_addr: lpm @name("hdr.ipv4.dstAddr"); }
        actions = { ipv4_forward; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (ipv4.ttl > 1) {
            ipv4_lpm.apply();
        } else {
            drop();
        }
    }
}

#endif
