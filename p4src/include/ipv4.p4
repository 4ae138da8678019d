/* IPv4 header of a UDP datagram that a switch creates. */
#ifndef TELEMARK_IPV4_P4
#define TELEMARK_IPV4_P4

#include "headers.p4"

/* Fills the header. `length` is the UDP length: eight bytes plus the length of the payload. */
action put_ipv4(inout ipv4_t ipv4, in bit<32> src_addr, in bit<32> dst_addr, in bit<16> length) {
    ipv4.setValid();
    ipv4.version = 4;
    ipv4.ihl = 5;
    ipv4.dscp = 0;
    ipv4.ecn = 0;
    ipv4.total_length = 20 + length;
    ipv4.identification = 0;
    ipv4.flags = 2;  // do not fragment
    ipv4.fragment_offset = 0;
    ipv4.ttl = 64;
    ipv4.protocol = PROTOCOL_UDP;
    ipv4.src_addr = src_addr;
    ipv4.dst_addr = dst_addr;
    bit<32> sum = 0x4500 + 0x4000 + 0x4011 + (bit<32>)ipv4.total_length
        + (bit<32>)src_addr[31:16] + (bit<32>)src_addr[15:0]
        + (bit<32>)dst_addr[31:16] + (bit<32>)dst_addr[15:0];
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    ipv4.checksum = ~sum[15:0];
}

#endif
