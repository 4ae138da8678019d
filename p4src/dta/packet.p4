/* Headers of a translator: those of reports, of NACKs, of requests to collectors, and of
 * responses. */
#ifndef TELEMARK_DTA_PACKET_P4
#define TELEMARK_DTA_PACKET_P4

#include "../include/readout.p4"
#include "../roce/headers.p4"
#include "headers.p4"

// Payload of WRITE, up to 40 words. There is a header for each power of two; the longest is first.
header words_32_t {
    bit<1024> words;
}

header words_16_t {
    bit<512> words;
}

header words_8_t {
    bit<256> words;
}

header words_4_t {
    bit<128> words;
}

header words_2_t {
    bit<64> words;
}

header words_1_t {
    bit<32> words;
}

struct headers_t {
    readout_request_t readout_request;
    readout_write_t readout_write;
    readout_t readout;
    ethernet_t ethernet;
    grh_t grh;
    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    ipv6_t ipv6;
    ports_t ports;
    dta_t dta;
    nack_t nack;
    short_nack_t short_nack;
    prototype_t prototype;
    key_write_t key_write;
    short_key_write_t short_key_write;
    data_1_t data_1;
    data_3_t data_3;
    data_7_t data_7;
    append_t append;
    key_increment_t key_increment;
    short_key_increment_t short_key_increment;
    postcard_t postcard;
    short_postcard_t short_postcard;
    sketch_merge_t sketch_merge;
    bth_t bth;
    reth_t reth;
    atomic_t atomic;
    immediate_t immediate;
    aeth_t aeth;
    atomic_ack_t atomic_ack;
    words_32_t words_32;
    words_16_t words_16;
    words_8_t words_8;
    words_4_t words_4;
    words_2_t words_2;
    words_1_t words_1;
    icrc_t icrc;
}

/* Removes the part of a report that follows the base header. */
control RemoveReport(inout headers_t hdr) {
    apply {
        hdr.key_write.setInvalid();
        hdr.short_key_write.setInvalid();
        hdr.data_1.setInvalid();
        hdr.data_3.setInvalid();
        hdr.data_7.setInvalid();
        hdr.append.setInvalid();
        hdr.key_increment.setInvalid();
        hdr.short_key_increment.setInvalid();
        hdr.postcard.setInvalid();
        hdr.short_postcard.setInvalid();
        hdr.sketch_merge.setInvalid();
    }
}

#define COVERED_BITS 2048

control CoverPayload(in headers_t hdr, inout bit<COVERED_BITS> covered) {
    apply {
        if (hdr.words_32.isValid()) {
            covered = covered[COVERED_BITS - 1025:0] ++ hdr.words_32.words;
        }
        if (hdr.words_16.isValid()) {
            covered = covered[COVERED_BITS - 513:0] ++ hdr.words_16.words;
        }
        if (hdr.words_8.isValid()) {
            covered = covered[COVERED_BITS - 257:0] ++ hdr.words_8.words;
        }
        if (hdr.words_4.isValid()) {
            covered = covered[COVERED_BITS - 129:0] ++ hdr.words_4.words;
        }
        if (hdr.words_2.isValid()) {
            covered = covered[COVERED_BITS - 65:0] ++ hdr.words_2.words;
        }
        if (hdr.words_1.isValid()) {
            covered = covered[COVERED_BITS - 33:0] ++ hdr.words_1.words;
        }
    }
}

#endif
