/* Observer of explicit host-to-network flow measurements (RFC 9506): forwards packets, and measures
 * delay and loss of watched QUIC connections from bits that the hosts set in the first byte of
 * short headers.
 *
 *   parser   first byte of the UDP payload
 *   ingress  forwarding --> watch: stream and bits of the packet
 *                       --> delay: spin bit, delay bit   --> registers
 *                       --> loss: bits Q, R, L and T     --> registers
 *
 * A stream is one direction of a connection. The controller reads the registers with readout
 * packets. The program changes no packet. */
#include "../include/forwarding.p4"
#include "../include/readout.p4"
#include "delay.p4"
#include "loss.p4"
#include "watch.p4"

struct metadata_t {
    stream_t stream;
    readout_values_t readout;
}

parser ExplicitParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    HeadersParser() headers_parser;

    // If a packet ends after its headers, the lookahead fails. Then the packet is forwarded, and
    // first_byte stays 0, which is not a short header.
    state start {
        headers_parser.apply(packet, hdr, standard_metadata);
        meta.stream.first_byte = packet.lookahead<bit<8>>();
        transition accept;
    }
}

control ExplicitVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ExplicitIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    Watch() watch;
    SpinBit() spin_bit;
    DelayBit() delay_bit;
    SquareBit(READOUT_SQUARE) square_bit;
    SquareBit(READOUT_REFLECTION) reflection_bit;
    LossBit() loss_bit;
    TripBit() trip_bit;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;

    apply {
        bit<48> now_us = standard_metadata.ingress_global_timestamp;
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
            forwarding.apply(hdr, standard_metadata);
            watch.apply(hdr, meta.stream);
        }
        spin_bit.apply(meta.stream, now_us, meta.readout);
        delay_bit.apply(meta.stream, now_us, meta.readout);
        square_bit.apply(meta.stream, meta.stream.has_square, meta.stream.bit_1, meta.readout);
        reflection_bit.apply(
            meta.stream, meta.stream.has_reflection, meta.stream.bit_2, meta.readout);
        loss_bit.apply(meta.stream, meta.readout);
        trip_bit.apply(meta.stream, meta.readout);
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

control ExplicitEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control ExplicitComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ExplicitDeparser(packet_out packet, in headers_t hdr) {
    HeadersDeparser() headers_deparser;

    apply {
        headers_deparser.apply(packet, hdr);
    }
}

V1Switch(
    ExplicitParser(), ExplicitVerifyChecksum(), ExplicitIngress(), ExplicitEgress(),
    ExplicitComputeChecksum(), ExplicitDeparser()) main;
