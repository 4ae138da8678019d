/* Encapsulates a request to a collector: adds the headers from Ethernet to UDP (v2) or GRH (v1),
 * and the iCRC at the end. */
#ifndef TELEMARK_ROCE_NETWORK_P4
#define TELEMARK_ROCE_NETWORK_P4

#include "../include/ipv4.p4"
#include "icrc.p4"
#include "session.p4"

/* `bytes` is the length from BTH to iCRC; 0 means that there is no request. The packet is dropped
 * if there is no request, or if the session does not exist. */
control ToCollector(
    inout headers_t hdr, in bit<8> session, in bit<16> bytes,
    inout standard_metadata_t standard_metadata) {
    Icrc() compute_icrc;

    action put_ethernet(bit<48> src_mac, bit<48> dst_mac, bit<16> ether_type) {
        hdr.ethernet.setValid();
        hdr.ethernet.src_addr = src_mac;
        hdr.ethernet.dst_addr = dst_mac;
        hdr.ethernet.ether_type = ether_type;
    }

    action put_udp(bit<16> src_port) {
        hdr.ports.setValid();
        hdr.ports.src_port = src_port;
        hdr.ports.dst_port = ROCE_UDP_PORT;
        hdr.ports.word = (bytes + 8) ++ 16w0;  // no checksum, because the iCRC covers the packet
    }

    action over_v1(bit<48> src_mac, bit<48> dst_mac, bit<128> src_gid, bit<128> dst_gid) {
        put_ethernet(src_mac, dst_mac, ETHERTYPE_ROCE);
        hdr.grh.setValid();
        hdr.grh.version = 6;
        hdr.grh.traffic_class = 0;
        hdr.grh.flow_label = 0;
        hdr.grh.payload_length = bytes;
        hdr.grh.next_header = NEXT_HEADER_BTH;
        hdr.grh.hop_limit = 64;
        hdr.grh.src_gid = src_gid;
        hdr.grh.dst_gid = dst_gid;
    }

    action over_v2(
        bit<48> src_mac, bit<48> dst_mac, bit<32> src_addr, bit<32> dst_addr, bit<16> src_port) {
        put_ethernet(src_mac, dst_mac, ETHERTYPE_IPV4);
        put_ipv4(hdr.ipv4, src_addr, dst_addr, bytes + 8);
        put_udp(src_port);
    }

    action over_v2_ipv6(
        bit<48> src_mac, bit<48> dst_mac, bit<128> src_addr, bit<128> dst_addr, bit<16> src_port) {
        put_ethernet(src_mac, dst_mac, ETHERTYPE_IPV6);
        hdr.ipv6.setValid();
        hdr.ipv6.version = 6;
        hdr.ipv6.traffic_class = 0;
        hdr.ipv6.flow_label = 0;
        hdr.ipv6.payload_length = bytes + 8;
        hdr.ipv6.next_header = PROTOCOL_UDP;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.src_addr = src_addr;
        hdr.ipv6.dst_addr = dst_addr;
        put_udp(src_port);
    }

    action no_session() {
        mark_to_drop(standard_metadata);
    }

    table collectors {
        key = { session: exact @name("session"); }
        actions = { over_v1; over_v2; over_v2_ipv6; no_session; }
        default_action = no_session();
        size = ROCE_SESSIONS;
    }

    apply {
        if (bytes == 0) {
            no_session();
        } else if (collectors.apply().hit) {
            hdr.icrc.setValid();
            bit<32> icrc = 0;
            compute_icrc.apply(hdr, icrc);
            hdr.icrc.value = icrc;
            bit<16> network = IPV4_UDP_BYTES;
            if (hdr.grh.isValid()) {
                network = GRH_BYTES;
            } else if (hdr.ipv6.isValid()) {
                network = IPV6_UDP_BYTES;
            }
            truncate(ETHERNET_BYTES + (bit<32>)(network + bytes));
        }
    }
}

#endif
