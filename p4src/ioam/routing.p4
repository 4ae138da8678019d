/* Forwards by MAC address, otherwise by IPv6 route. Drops packets without a route, and packets
 * whose hop limit expires. */
#ifndef TELEMARK_IOAM_ROUTING_P4
#define TELEMARK_IOAM_ROUTING_P4

#include "packet.p4"

control IoamForward(
    inout headers_t hdr, in ioam_t ioam, inout standard_metadata_t standard_metadata) {
    bit<128> destination = 0;
    bit<8> hop_limit = 0;

    action ioam_forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action ioam_drop() {
        mark_to_drop(standard_metadata);
    }

    /* Sends to the neighbour with this MAC address, through this port. */
    action ioam_send(bit<48> mac_addr, bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac_addr;
        hop_limit = hop_limit - 1;
    }

    table ioam_forwarding {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { ioam_forward; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    table ioam_routes {
        key = { destination: lpm @name("destination"); }
        actions = { ioam_send; ioam_drop; }
        default_action = ioam_drop();
        size = 1024;
    }

    apply {
        if (ioam.ends_loopback == 1) {
            ioam_forward(standard_metadata.ingress_port);  // egress reports it, and drops it
        } else if (!ioam_forwarding.apply().hit) {
            // The route is that of the outer header of a tunnel, except where the tunnel ends. The
            // hop limit is that of the header that arrived.
            destination = hdr.ipv6.dst_addr;
            hop_limit = hdr.ipv6.hop_limit;
            if (ioam.has_tunnel == 1) {
                destination = ioam.tunnel_dst;
            } else if (ioam.ends_tunnel == 1) {
                destination = hdr.inner_ipv6.dst_addr;
                hop_limit = hdr.inner_ipv6.hop_limit;
            }
            if (!hdr.ipv6.isValid() || hdr.ipv6.version != 6 || hop_limit <= 1) {
                ioam_drop();
            } else {
                ioam_routes.apply();
                if (ioam.ends_tunnel == 1) {
                    hdr.inner_ipv6.hop_limit = hop_limit;
                } else {
                    hdr.ipv6.hop_limit = hop_limit;
                }
            }
        }
    }
}

#endif
