/* Selects the packets that are recorded, and their sessions. A program declares `headers_t` before
 * it includes this file. */
#ifndef TELEMARK_ROCE_WATCH_P4
#define TELEMARK_ROCE_WATCH_P4

#include "../include/hop.p4"
#include "session.p4"

struct roce_t {
    @field_list(CLONE_FIELDS)
    bit<8> session;
    @field_list(CLONE_FIELDS)
    bit<1> is_probe;
    @field_list(CLONE_FIELDS)
    bit<32> cell;    // counter of the region for FETCH ADD
    @field_list(CLONE_FIELDS)
    bit<64> addend;
}

/* Selects the session of a packet. The ports are the original ports of the packet. INT may have
 * replaced these ports in the headers. */
control RecordList(
    in headers_t hdr, in bit<16> src_port, in bit<16> dst_port, inout roce_t roce,
    in standard_metadata_t standard_metadata) {
    /* Records the packet in one of `count` sessions, from the number `first` on. All packets of a
     * flow use the same session. */
    action record(bit<8> first, bit<8> count) {
        bit<8> number;
        hash(
            number, HashAlgorithm.crc32, 8w0,
            {
                hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
                hdr.ipv6.src_addr, hdr.ipv6.dst_addr, hdr.ipv6.next_header, src_port, dst_port
            },
            count);
        roce.session = first + number;
    }

    /* Writes no record, but adds 1 to a counter in the memory of the collector. */
    action count_packet(bit<8> session, bit<32> cell) {
        roce.session = session;
        roce.cell = cell;
        roce.addend = 1;
    }

    action count_bytes(bit<8> session, bit<32> cell) {
        roce.session = session;
        roce.cell = cell;
        roce.addend = (bit<64>)standard_metadata.packet_length;
    }

    table record_list {
        key = {
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.ipv4.protocol: ternary;
            src_port: ternary @name("hdr.ports.src_port");
            dst_port: ternary @name("hdr.ports.dst_port");
        }
        actions = { record; count_packet; count_bytes; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    table record_list_ipv6 {
        key = {
            hdr.ipv6.src_addr: ternary;
            hdr.ipv6.dst_addr: ternary;
            hdr.ipv6.next_header: ternary;
            src_port: ternary @name("hdr.ports.src_port");
            dst_port: ternary @name("hdr.ports.dst_port");
        }
        actions = { record; count_packet; count_bytes; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            record_list.apply();
        } else if (hdr.ipv6.isValid()) {
            record_list_ipv6.apply();
        }
    }
}

#endif
