/* INT at the sink: restores the packet exactly as it entered the source. */
#ifndef TELEMARK_INT_SINK_P4
#define TELEMARK_INT_SINK_P4

#include "lengths.p4"

/* Copies headers for the report. The copies are needed because the report is made after INT was
 * removed. */
control Keep(inout headers_t hdr) {
    apply {
        hdr.kept_ipv4 = hdr.ipv4;
        hdr.kept_ipv6 = hdr.ipv6;
        hdr.kept_ports = hdr.ports;
        hdr.kept_tcp = hdr.tcp;
        hdr.kept_marker = hdr.marker;
        hdr.kept_shim = hdr.shim;
        hdr.kept_header = hdr.int_header;
        hdr.kept_stack = hdr.stack;
    }
}

control PutBack(inout headers_t hdr) {
    apply {
        hdr.ipv4 = hdr.kept_ipv4;
        hdr.ipv6 = hdr.kept_ipv6;
        hdr.ports = hdr.kept_ports;
        hdr.tcp = hdr.kept_tcp;
        hdr.marker = hdr.kept_marker;
        hdr.shim = hdr.kept_shim;
        hdr.int_header = hdr.kept_header;
        hdr.stack = hdr.kept_stack;
    }
}

control Strip(inout headers_t hdr) {
    ChangeLengths() change_lengths;
    ChangeChecksum() change_checksum;
    SetDscp() set_dscp;
    SetProtocol() set_protocol;

    apply {
        bit<16> inverted;  // inverted checksum sum of the stack
        hash(
            inverted, HashAlgorithm.csum16, 16w0, { hdr.stack.words }, 32w0x10000);
        bit<32> gone = (bit<32>)~inverted + sum_of_headers(hdr.shim, hdr.int_header);
        bit<16> bytes = ((bit<16>)hdr.shim.length + 1) << 2;
        bit<32> come_back = 0;
        if (hdr.marker.isValid()) {
            bytes = bytes + 8;
            gone = gone + halves(PROBE_MARKER[63:32]) + halves(PROBE_MARKER[31:0]);
            hdr.marker.setInvalid();
        } else if (hdr.shim.npt == NPT_UDP) {
            gone = gone + INT_UDP_PORT;
            come_back = (bit<32>)hdr.shim.original;
            hdr.ports.dst_port = hdr.shim.original;
        } else if (hdr.shim.npt == NPT_L4) {
            bytes = bytes + 8;
            bit<8> protocol = hdr.shim.original[7:0];
            set_protocol.apply(hdr, protocol);
            hdr.ports.setInvalid();
        } else {
            bit<6> dscp = hdr.ipv6.traffic_class[7:2];
            if (hdr.ipv4.isValid()) {
                dscp = hdr.ipv4.dscp;
            }
            dscp[5:2] = hdr.shim.original[7:4];
            set_dscp.apply(hdr, dscp);
        }
        gone = gone + sum_of_length(hdr.tcp.isValid(), bytes);
        change_lengths.apply(hdr, -bytes);
        if (hdr.ports.isValid()) {
            bit<32> added = (bit<32>)~folded(gone) + come_back;
            change_checksum.apply(hdr, added);
        }
        hdr.shim.setInvalid();
        hdr.int_header.setInvalid();
        hdr.stack.setInvalid();
    }
}

#endif
