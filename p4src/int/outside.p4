/* Flow key of a packet with INT: the values that header fields have outside of the domain. */
#ifndef TELEMARK_INT_OUTSIDE_P4
#define TELEMARK_INT_OUTSIDE_P4

#include "packet.p4"

/* Returns the original protocol and ports. INT may have replaced them to mark the packet. A value
 * is 0 if the packet does not have it. */
control NamedOutside(
    in headers_t hdr, out bit<8> protocol, out bit<16> src_port, out bit<16> dst_port) {
    apply {
        protocol = hdr.ipv4.isValid() ? hdr.ipv4.protocol : hdr.ipv6.next_header;
        src_port = 0;
        dst_port = 0;
        if (hdr.ports.isValid()) {
            src_port = hdr.ports.src_port;
            dst_port = hdr.ports.dst_port;
        }
        if (hdr.shim.isValid() && hdr.shim.npt == NPT_UDP) {
            dst_port = hdr.shim.original;
        } else if (hdr.inner_ports.isValid()) {
            protocol = hdr.shim.original[7:0];
            src_port = hdr.inner_ports.src_port;
            dst_port = hdr.inner_ports.dst_port;
        }
    }
}

#endif
