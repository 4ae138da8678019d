/* Forwarding by MAC address: one egress port per destination address. */
#ifndef TELEMARK_FORWARDING_P4
#define TELEMARK_FORWARDING_P4

#include "parser.p4"

control Forwarding(in headers_t hdr, inout standard_metadata_t standard_metadata) {
    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table forwarding {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        forwarding.apply();
    }
}

#endif
