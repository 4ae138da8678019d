/* A router with a count-min sketch that counts the packets of each flow (Cormode and Muthukrishnan
 * 2005).
 *
 * There are four rows of counters. Each row has its own hash function. It assigns each flow to one
 * counter of the row. This counter counts the packets of the flow. Other flows with the same
 * counter can only increase the count. So the estimate is the minimum of the four counters of the
 * flow. The controller chooses the hash functions, and reads the counters by readout packets. */
#include "../include/hash_function.p4"
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

/* One row of counters. */
control Row(in bool counts, in bit<32> flow, in readout_values_t readout, inout bit<64> value) {
    HashFunction() hash_function;
    register<bit<32>>(WIDTH) counters;
    bit<32> index = 0;

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
            hash_function.apply(flow, WIDTH, index);
            count();
        }
    }
}

control CountMinIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Routing() routing;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;
    FlowHash() flow_hash;
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
            flow_hash.apply(hdr.ipv4, hdr.ports, flow);
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
