/* IPv4 routing by longest prefix. If there are several next hops, a hash of the flow selects one.
 * Packets that are not IPv4 are dropped, and also packets whose TTL expires. */
#ifndef TELEMARK_ROUTING_P4
#define TELEMARK_ROUTING_P4

#include "headers.p4"

control Routing(
    inout ethernet_t ethernet, inout ipv4_t ipv4, in ports_t ports,
    inout standard_metadata_t standard_metadata) {
    bit<16> group = 0;   // group of next hops
    bit<16> member = 0;  // number of the chosen next hop
    bit<16> src_port = 0;  // source port; 0 for packets without ports
    bit<16> dst_port = 0;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    /* Sends to the neighbour with this MAC address, through this port. */
    action send(bit<48> mac_addr, bit<9> port) {
        standard_metadata.egress_spec = port;
        ethernet.src_addr = ethernet.dst_addr;
        ethernet.dst_addr = mac_addr;
        bit<16> before = ipv4.ttl ++ ipv4.protocol;
        ipv4.ttl = ipv4.ttl - 1;
        bit<16> after = ipv4.ttl ++ ipv4.protocol;
        ipv4.checksum = changed_checksum(ipv4.checksum, before, after);
    }

    /* Sends the packet to one of `count` next hops. Each switch has a different salt. With equal
     * salts, flows that have the same next hop at one switch would also have the same next hop at
     * the next switch. */
    action spread(bit<16> group_number, bit<16> count, bit<16> salt) {
        group = group_number;
        hash(
            member, HashAlgorithm.crc32, 16w0,
            {
                salt, ipv4.src_addr, ipv4.dst_addr, ipv4.protocol, src_port, dst_port
            },
            count);
    }

    table routes {
        key = { ipv4.dst_addr: lpm @name("hdr.ipv4.dst_addr"); }
        actions = { send; spread; drop; }
        default_action = drop();
        size = 4096;
    }

    table next_hops {
        key = {
            group: exact @name("group");
            member: exact @name("member");
        }
        actions = { send; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        if (ports.isValid()) {
            src_port = ports.src_port;
            dst_port = ports.dst_port;
        }
        if (ipv4.isValid() && ipv4.ihl >= 5 && ipv4.ttl > 1) {
            switch (routes.apply().action_run) {
                spread: { next_hops.apply(); }
            }
        } else {
            drop();
        }
    }
}

#endif
