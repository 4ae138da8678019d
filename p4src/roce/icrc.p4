/* The invariant CRC of a RoCE packet.
 *
 * InfiniBand Architecture Specification, volume 1, 7.8.1, A16.5.1 and A17.3.3.
 *
 * A program declares three parts before it includes this file: `headers_t`; COVERED_BITS, which is
 * at least the number of covered bits plus 32; and `CoverPayload`, which shifts the payload into
 * `covered` after the headers. p4c supports at most 2048 bits in one value. Therefore, the end of a
 * longer payload is a separate header, COVERED_BEHIND, with the fields COVERED_BEHIND_FIELDS. */
#ifndef TELEMARK_ROCE_ICRC_P4
#define TELEMARK_ROCE_ICRC_P4

#include "headers.p4"

/* CRC-32 of Ethernet. It covers eight bytes of ones, and all valid headers from the network header
 * to the payload. Fields that routers change are replaced by ones. The least significant byte of
 * the CRC is sent first.
 *
 * One hash is enough for all layouts. The covered bits are shifted into `covered` from the right,
 * so leading zeros precede them. Zeros do not change the CRC while its register is 0. Therefore,
 * four bytes of ones come first: they change the register from its initial value (ones) to 0.
 * After the zeros, AS_INITIALLY restores the initial value. */
@noWarn("invalid-header")
control Icrc(in headers_t hdr, inout bit<32> icrc) {
    const bit<32> AS_INITIALLY = 0x62F52692;
    // stands for the InfiniBand Local Route Header (RoCE has none): eight bytes of ones
    const bit<64> LOCAL_ROUTE = 0xFFFFFFFFFFFFFFFF;
    CoverPayload() cover_payload;
    bit<COVERED_BITS> covered = (bit<COVERED_BITS>)AS_INITIALLY;

    /* The GRH and the IPv6 header have the same layout. */
    action cover_network(
        bit<4> version, bit<16> length, bit<8> next_header, bit<128> src, bit<128> dst) {
        bit<384> network =
            LOCAL_ROUTE ++ version ++ 28w0xFFFFFFF ++ length ++ next_header ++ 8w0xFF ++ src ++ dst;
        covered = covered[COVERED_BITS - 385:0] ++ network;
    }

    apply {
        if (hdr.grh.isValid()) {
            cover_network(
                hdr.grh.version, hdr.grh.payload_length, hdr.grh.next_header, hdr.grh.src_gid,
                hdr.grh.dst_gid);
        } else {
            if (hdr.ipv6.isValid()) {
                cover_network(
                    hdr.ipv6.version, hdr.ipv6.payload_length, hdr.ipv6.next_header,
                    hdr.ipv6.src_addr, hdr.ipv6.dst_addr);
            } else {
                bit<224> network =
                    LOCAL_ROUTE ++ hdr.ipv4.version ++ hdr.ipv4.ihl ++ 8w0xFF
                    ++ hdr.ipv4.total_length ++ hdr.ipv4.identification ++ hdr.ipv4.flags
                    ++ hdr.ipv4.fragment_offset ++ 8w0xFF ++ hdr.ipv4.protocol ++ 16w0xFFFF
                    ++ hdr.ipv4.src_addr ++ hdr.ipv4.dst_addr;
                covered = covered[COVERED_BITS - 225:0] ++ network;
            }
            bit<64> udp =
                hdr.ports.src_port ++ hdr.ports.dst_port ++ hdr.ports.word[31:16] ++ 16w0xFFFF;
            covered = covered[COVERED_BITS - 65:0] ++ udp;
        }
        bit<96> bth =
            hdr.bth.opcode ++ hdr.bth.solicited ++ hdr.bth.migrated ++ hdr.bth.pad_count
            ++ hdr.bth.version ++ hdr.bth.partition_key ++ 8w0xFF ++ hdr.bth.dst_qp
            ++ hdr.bth.ack_request ++ hdr.bth.reserved_too ++ hdr.bth.psn;
        covered = covered[COVERED_BITS - 97:0] ++ bth;
        if (hdr.reth.isValid()) {
            bit<128> reth = hdr.reth.address ++ hdr.reth.rkey ++ hdr.reth.length;
            covered = covered[COVERED_BITS - 129:0] ++ reth;
        }
        if (hdr.atomic.isValid()) {
            bit<224> atomic = hdr.atomic.address ++ hdr.atomic.rkey ++ hdr.atomic.addend
                ++ hdr.atomic.compare;
            covered = covered[COVERED_BITS - 225:0] ++ atomic;
        }
        if (hdr.immediate.isValid()) {
            covered = covered[COVERED_BITS - 33:0] ++ hdr.immediate.value;
        }
        if (hdr.aeth.isValid()) {
            bit<32> aeth = hdr.aeth.syndrome ++ hdr.aeth.msn;
            covered = covered[COVERED_BITS - 33:0] ++ aeth;
        }
        if (hdr.atomic_ack.isValid()) {
            covered = covered[COVERED_BITS - 65:0] ++ hdr.atomic_ack.original;
        }
        cover_payload.apply(hdr, covered);
        bit<32> crc;
#ifdef COVERED_BEHIND
        if (hdr.COVERED_BEHIND.isValid()) {
            hash(
                crc, HashAlgorithm.crc32, 32w0, { 32w0xFFFFFFFF, covered, COVERED_BEHIND_FIELDS },
                64w0x100000000);
        } else
#endif
        {
            hash(crc, HashAlgorithm.crc32, 32w0, { 32w0xFFFFFFFF, covered }, 64w0x100000000);
        }
        icrc = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }
}

#endif
