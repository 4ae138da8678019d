/* A router with a count-min sketch that counts the packets of each flow (Cormode and Muthukrishnan
 * 2005).
 *
 * There are four rows of counters. Each row has its own hash function. It assigns each flow to one
 * counter of the row. This counter counts the packets of the flow. Other flows with the same
 * counter can only increase the count. So the estimate is the minimum of the four counters of the
 * flow. The controller chooses the hash functions, and reads the counters by readout packets. */
#include "../include/readout.p4"
#include "../include/routing.p4"

#ifndef WIDTH
#define WIDTH 272  // counters in a row
#endif

const bit<16> READOUT_COUNTERS = 1;  // index: counter; values: count in each row

struct metadata_t {
    readout_values_t readout;
}

#include "../include/switch.p4"

/* One row. Its hash is (a * flow + b) mod 2^64. The upper half of the hash, as a fraction, is the
 * position in the row. If a and b are random, positions are pairwise independent (Dietzfelbinger
 * 1996), as the theory requires. Positions from CRCs with a salt are not independent: if the CRCs
 * of two flows are equal modulo a power of two, they are equal for every salt. */
control Row(in bool counts, in bit<32> flow, in readout_values_t readout, inout bit<64> value) {
    register<bit<32>>(WIDTH) counters;
    bit<32> index = 0;

    action choose(bit<64> a, bit<64> b) {
        bit<64> hashed = a * (bit<64>)flow + b;
        index = (((hashed >> 32) * WIDTH) >> 32)[31:0];
    }

    table hash_function {
        actions = { choose; }
        default_action = choose(0, 0);
    }

    action count() {
        bit<32> packets;
        counters.read(packets, index);
        counters.write(index, packets + 1);
    }

    action read() {
        bit<32> packets;
        counters.read(packets, readout.index);
        value = (bit<64>)packets;
    }

    apply {
        if (readout.record == READOUT_COUNTERS) {
            read();
        } else if (counts) {
            hash_function.apply();
            count();
        }
    }
}

control CountMinIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Routing() routing;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;
    Row() row_0;
    Row() row_1;
    Row() row_2;
    Row() row_3;

    apply {
        bit<32> flow = 0;
        bool counts = hdr.ipv4.isValid() && hdr.ports.isValid();
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
            routing.apply(hdr.ethernet, hdr.ipv4, hdr.ports, standard_metadata);
        }
        if (counts) {
            hash(
                flow, HashAlgorithm.crc32, 32w0,
                {
                    hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
                    hdr.ports.src_port, hdr.ports.dst_port
                },
                64w1 << 32);
        }
        row_0.apply(counts, flow, meta.readout, meta.readout.value_0);
        row_1.apply(counts, flow, meta.readout, meta.readout.value_1);
        row_2.apply(counts, flow, meta.readout, meta.readout.value_2);
        row_3.apply(counts, flow, meta.readout, meta.readout.value_3);
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    SwitchParser(), SwitchVerifyChecksum(), CountMinIngress(), NoEgress(), SwitchComputeChecksum(),
    SwitchDeparser()) main;
