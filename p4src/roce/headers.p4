/* Wire formats of RoCEv1 and RoCEv2. They are defined in the InfiniBand Architecture Specification,
 * volume 1, chapter 9, and in its annexes A16 (RoCE) and A17 (RoCEv2). */
#ifndef TELEMARK_ROCE_HEADERS_P4
#define TELEMARK_ROCE_HEADERS_P4

#include "../include/headers.p4"

const bit<16> ETHERTYPE_ROCE = 0x8915;  // RoCEv1: a GRH follows
const bit<16> ROCE_UDP_PORT = 4791;     // RoCEv2
const bit<8> NEXT_HEADER_BTH = 0x1B;

const bit<128> IPV4_MAPPED = 0x0000_0000_0000_0000_0000_FFFF_0000_0000;  // RFC 4291, 2.5.5.2

// Opcodes of BTH: transport and operation.
const bit<8> RC = 0x00;
const bit<8> UC = 0x20;
const bit<8> WRITE_ONLY = 0x0A;
const bit<8> ACKNOWLEDGE = 0x11;
const bit<8> ATOMIC_ACKNOWLEDGE = 0x12;
const bit<8> FETCH_ADD = 0x14;

header grh_t {  // global routing header of RoCEv1
    bit<4> version;
    bit<8> traffic_class;
    bit<20> flow_label;
    bit<16> payload_length;  // length from BTH to iCRC
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src_gid;
    bit<128> dst_gid;
}

header bth_t {  // base transport header
    bit<8> opcode;
    bit<1> solicited;
    bit<1> migrated;
    bit<2> pad_count;
    bit<4> version;
    bit<16> partition_key;
    bit<8> reserved;  // in RoCEv2, two of these bits are FECN and BECN
    bit<24> dst_qp;
    bit<1> ack_request;
    bit<7> reserved_too;
    bit<24> psn;
}

header reth_t {  // RDMA header of a WRITE request
    bit<64> address;
    bit<32> rkey;
    bit<32> length;
}

header immediate_t {
    bit<32> value;
}

header atomic_t {
    bit<64> address;
    bit<32> rkey;
    bit<64> addend;
    bit<64> compare;
}

header aeth_t {  // header of an ACK or NAK
    bit<8> syndrome;
    bit<24> msn;
}

header atomic_ack_t {
    bit<64> original;
}

header icrc_t {
    bit<32> value;  // the least significant byte is first
}

// Values of bits 6 and 5 of a syndrome, and kinds of NAKs (volume 1, 9.7.5.1).
const bit<2> SYNDROME_ACK = 0;
const bit<2> SYNDROME_NOT_READY = 1;
const bit<8> NAK_SEQUENCE = 0x60;

const bit<16> GRH_BYTES = 40;
const bit<16> IPV4_UDP_BYTES = 28;
const bit<16> IPV6_UDP_BYTES = 48;
const bit<16> BTH_ICRC_BYTES = 16;
const bit<16> RETH_BYTES = 16;
const bit<16> IMMEDIATE_BYTES = 4;
const bit<16> ATOMIC_BYTES = 28;

#endif
