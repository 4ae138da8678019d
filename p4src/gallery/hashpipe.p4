/* HashPipe (Sivaraman et al., SOSR 2017): finds the heaviest flows in a pipeline of hash tables.
 *
 * Each stage is a table of keys and counts. In the first stage, the key of a packet always takes
 * its slot. If the slot had another key, that key is carried to the next stage with its count. In a
 * later stage, the key with the larger count stays in the slot, and the other key is carried on.
 * Counts of the same key are added. A key may be stored in several stages, so the estimate of a
 * flow is the sum of its counts. */
#include "../include/forwarding.p4"
#include "../include/hash_function.p4"

#ifndef SLOTS
#define SLOTS 64  // slots in a stage
#endif

// Record 1 is the first stage. Values: lower 64 bits of the key, upper 40 bits, count.

struct metadata_t {
    readout_values_t readout;
}

#include "../include/switch.p4"

control Stage(
    in bit<16> number, inout bit<104> key, inout bit<32> count, inout readout_values_t readout) {
    HashFunction() hash_function;
    register<bit<104>>(SLOTS) keys;
    register<bit<32>>(SLOTS) counts;

    apply {
        bit<104> stored_key;
        bit<32> stored_count;
        bit<32> index = 0;
        if (readout.record == number) {
            keys.read(stored_key, readout.index);
            counts.read(stored_count, readout.index);
            readout.value_0 = stored_key[63:0];
            readout.value_1 = (bit<64>)stored_key[103:64];
            readout.value_2 = (bit<64>)stored_count;
        } else if (count != 0) {
            bit<32> flow;
            hash(flow, HashAlgorithm.crc32, 32w0, { key }, 64w1 << 32);
            hash_function.apply(flow, SLOTS, index);
            keys.read(stored_key, index);
            counts.read(stored_count, index);
            if (stored_count != 0 && stored_key == key) {
                counts.write(index, stored_count + count);
                count = 0;
            } else if (number == 1 || stored_count < count) {
                keys.write(index, key);
                counts.write(index, count);
                key = stored_key;
                count = stored_count;
            }
        }
    }
}

control HashPipeIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;
    Stage() stage_1;
    Stage() stage_2;
    Stage() stage_3;
    Stage() stage_4;
    Stage() stage_5;
    Stage() stage_6;

    apply {
        bit<104> key = 0;
        bit<32> count = 0;  // 0 means that no key is carried
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
            forwarding.apply(hdr, standard_metadata);
        }
        if (hdr.ipv4.isValid() && hdr.ports.isValid()) {
            key = hdr.ipv4.src_addr ++ hdr.ipv4.dst_addr ++ hdr.ipv4.protocol
                ++ hdr.ports.src_port ++ hdr.ports.dst_port;
            count = 1;
        }
        stage_1.apply(1, key, count, meta.readout);
        stage_2.apply(2, key, count, meta.readout);
        stage_3.apply(3, key, count, meta.readout);
        stage_4.apply(4, key, count, meta.readout);
        stage_5.apply(5, key, count, meta.readout);
        stage_6.apply(6, key, count, meta.readout);
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    SwitchParser(), SwitchVerifyChecksum(), HashPipeIngress(), NoEgress(), SwitchComputeChecksum(),
    SwitchDeparser()) main;
