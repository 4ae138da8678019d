/* Updates the lengths and checksums of a packet, when data are inserted after its UDP or TCP
 * header. All updates are incremental (RFC 1624). So a wrong value stays wrong, and INT does not
 * hide damage. */
#ifndef TELEMARK_INT_LENGTHS_P4
#define TELEMARK_INT_LENGTHS_P4

#include "packet.p4"

/* Returns a sum of 16-bit words as 16 bits; carries are added (RFC 1071). */
bit<16> folded(in bit<32> sum) {
    bit<32> once = (sum & 0xFFFF) + (sum >> 16);
    return (once + (once >> 16))[15:0];
}

/* Returns what the shim and the INT header contribute to the checksum. */
bit<32> sum_of_headers(in int_shim_t shim, in int_header_t h) {
    return (bit<32>)(shim.type ++ shim.npt ++ shim.reserved ++ shim.length)
        + (bit<32>)shim.original
        + (bit<32>)(h.version ++ h.discard ++ h.hops_exceeded
                    ++ h.mtu_exceeded ++ h.reserved[11:3])
        + (bit<32>)(h.reserved[2:0] ++ h.hop_words ++ h.remaining_hops)
        + (bit<32>)h.instructions + (bit<32>)h.domain_id
        + (bit<32>)h.domain_instructions + (bit<32>)h.domain_flags;
}

/* Returns what `bytes` additional bytes contribute to the checksum because the length changes. For
 * TCP, the length is only in the pseudo-header. For UDP, it is also in the UDP header. */
bit<32> sum_of_length(in bool is_tcp, in bit<16> bytes) {
    return is_tcp ? (bit<32>)bytes : (bit<32>)bytes << 1;
}

/* Returns the length of the IP packet. */
bit<32> bytes_of_ip(in ipv4_t ipv4, in ipv6_t ipv6) {
    bit<32> bytes = (bit<32>)ipv6.payload_length + 40;
    if (ipv4.isValid()) {
        bytes = (bit<32>)ipv4.total_length;
    }
    return bytes;
}

/* Increases the lengths in the IP and UDP headers by `bytes`, modulo 2^16. */
control ChangeLengths(inout headers_t hdr, in bit<16> bytes) {
    apply {
        if (hdr.ipv4.isValid()) {
            bit<16> before = hdr.ipv4.total_length;
            hdr.ipv4.total_length = before + bytes;
            hdr.ipv4.checksum =
                changed_checksum(hdr.ipv4.checksum, before, hdr.ipv4.total_length);
        } else {
            hdr.ipv6.payload_length = hdr.ipv6.payload_length + bytes;
        }
        if (!hdr.tcp.isValid() && hdr.ports.isValid()) {
            hdr.ports.word[31:16] = hdr.ports.word[31:16] + bytes;
        }
    }
}

/* Adds `added` to the layer 4 checksum. For UDP, 0 means that there is no checksum, so a result of
 * 0 is sent as 0xFFFF (RFC 768). */
control ChangeChecksum(inout headers_t hdr, in bit<32> added) {
    apply {
        if (hdr.tcp.isValid()) {
            hdr.tcp.checksum = ~folded((bit<32>)(~hdr.tcp.checksum) + added);
        } else if (hdr.ports.word[15:0] != 0) {
            bit<16> checksum = ~folded((bit<32>)(~hdr.ports.word[15:0]) + added);
            hdr.ports.word[15:0] = checksum == 0 ? 16w0xFFFF : checksum;
        }
    }
}

/* Sets the DSCP. No layer 4 checksum covers it. */
control SetDscp(inout headers_t hdr, in bit<6> dscp) {
    Ipv4SetDscp() set_ipv4;

    apply {
        if (hdr.ipv4.isValid()) {
            set_ipv4.apply(hdr.ipv4, dscp);
        } else {
            hdr.ipv6.traffic_class[7:2] = dscp;
        }
    }
}

/* Sets the layer 4 protocol. */
control SetProtocol(inout headers_t hdr, in bit<8> protocol) {
    apply {
        if (hdr.ipv4.isValid()) {
            bit<16> before = hdr.ipv4.ttl ++ hdr.ipv4.protocol;
            hdr.ipv4.protocol = protocol;
            hdr.ipv4.checksum =
                changed_checksum(hdr.ipv4.checksum, before, hdr.ipv4.ttl ++ protocol);
        } else {
            hdr.ipv6.next_header = protocol;
        }
    }
}

#endif
