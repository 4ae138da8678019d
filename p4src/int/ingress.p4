/* Ingress of a switch with INT: forwards by MAC address, otherwise by route; applies the access
 * list; and selects packets for INT. */
#ifndef TELEMARK_INT_INGRESS_P4
#define TELEMARK_INT_INGRESS_P4

#include "../include/routing.p4"
#include "events.p4"

const bit<9> DROPPED = 511;  // egress_spec

control Forward(
    inout headers_t hdr, inout bit<8> drop_reason,
    inout standard_metadata_t standard_metadata) {
    Routing() routing;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action deny() {
        mark_to_drop(standard_metadata);
        drop_reason = DENIED;
    }

    table forwarding {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    table access_list {
        key = {
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.ipv4.protocol: ternary;
            hdr.ports.src_port: ternary;
            hdr.ports.dst_port: ternary;
        }
        actions = { deny; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        if (!forwarding.apply().hit) {
            routing.apply(hdr.ethernet, hdr.ipv4, hdr.ports, standard_metadata);
            if (standard_metadata.egress_spec == DROPPED) {
                drop_reason = NO_ROUTE;
                if (!hdr.ipv4.isValid()) {
                    drop_reason = NO_SUCH_MAC;
                } else if (hdr.ipv4.ttl <= 1) {
                    drop_reason = OUT_OF_TIME;
                }
            }
        }
        if (drop_reason == 0 && hdr.ipv4.isValid()) {
            access_list.apply();
        }
    }
}

#endif
