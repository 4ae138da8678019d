/* NACK: asks a reporter to send missing reports again. It is made from a clone of the report that
 * was received, and is sent back. */
#ifndef TELEMARK_DTA_NACK_P4
#define TELEMARK_DTA_NACK_P4

#include "../include/ipv4.p4"
#include "sequence.p4"

control MakeNack(inout headers_t hdr, in arrival_t arrival) {
    action reverse(bit<16> length) {
        bit<48> mac = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = mac;
        hdr.ipv4_options.setInvalid();
        bit<32> reporter = hdr.ipv4.src_addr;
        bit<32> translator = hdr.ipv4.dst_addr;
        put_ipv4(hdr.ipv4, translator, reporter, length);
        hdr.ports.src_port = hdr.ports.dst_port;
        hdr.ports.dst_port = NACK_PORT;
        hdr.ports.word = length ++ 16w0;  // no checksum
        truncate((bit<32>)length + 34);  // keeps 34 bytes (Ethernet and IPv4), and no report
    }

    action put_nack() {
        hdr.dta.immediate = 0;
        hdr.dta.retransmittable = 0;
        hdr.dta.opcode = NACK;
        hdr.dta.sequence = arrival.missing;
        hdr.nack.setValid();
        hdr.nack.count = arrival.count;
    }

    action put_short_nack() {
        hdr.prototype.setInvalid();
        hdr.short_nack.setValid();
        hdr.short_nack.sequence = arrival.missing[7:0];
        hdr.short_nack.nack = 1;
        hdr.short_nack.reserved = 0;
    }

    apply {
        if (hdr.dta.isValid()) {
            put_nack();
            reverse(NACK_LENGTH);
        } else {
            put_short_nack();
            reverse(SHORT_NACK_LENGTH);
        }
    }
}

#endif
