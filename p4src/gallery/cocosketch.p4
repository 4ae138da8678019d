/* CocoSketch (Zhang et al., SIGCOMM 2021): one table of flow keys and counts, from which a
 * controller computes the sizes of all partial keys.
 *
 * ARRAYS 2, basic CocoSketch: each array has one bucket for a flow. If a bucket has the key of the
 * packet, it counts the packet. Otherwise, the bucket with the smaller count counts the packet, and
 * takes the packet's key with probability 1 / count. This choice adds the least variance.
 *
 * ARRAYS 1, hardware-friendly CocoSketch: the bucket always counts the packet, and takes the
 * packet's key with probability 1 / count. Neither step reads the stored key.
 *
 * The program writes the random number of a packet into the source MAC address, so that a capture
 * shows all random decisions. */
#include "../include/forwarding.p4"
#include "../include/hash_function.p4"

#ifndef ARRAYS
#define ARRAYS 2
#endif
#ifndef BUCKETS
#define BUCKETS 64  // buckets in an array
#endif

// Record n is array n. Values: lower 64 bits of the key, upper 40 bits, count.

struct metadata_t {
    readout_values_t readout;
}

#include "../include/switch.p4"

control CocoSketch(in bit<104> key, in bit<32> number, inout readout_values_t readout) {
    HashFunction() hash_1;
    register<bit<104>>(BUCKETS) keys_1;
    register<bit<32>>(BUCKETS) counts_1;
    bit<32> index_1 = readout.index;
    bit<104> stored_1;
    bit<32> count_1;
#if ARRAYS == 2
    HashFunction() hash_2;
    register<bit<104>>(BUCKETS) keys_2;
    register<bit<32>>(BUCKETS) counts_2;
    bit<32> index_2 = readout.index;
    bit<104> stored_2;
    bit<32> count_2;
#endif

    apply {
        if (readout.record == 0) {
            bit<32> flow;
            hash(flow, HashAlgorithm.crc32, 32w0, { key }, 64w1 << 32);
            hash_1.apply(flow, BUCKETS, index_1);
#if ARRAYS == 2
            hash_2.apply(flow, BUCKETS, index_2);
#endif
        }
        keys_1.read(stored_1, index_1);
        counts_1.read(count_1, index_1);
#if ARRAYS == 2
        keys_2.read(stored_2, index_2);
        counts_2.read(count_2, index_2);
        if (readout.record == 2) {
            stored_1 = stored_2;
            count_1 = count_2;
        }
#endif
        if (readout.record != 0) {
            readout.value_0 = stored_1[63:0];
            readout.value_1 = (bit<64>)stored_1[103:64];
            readout.value_2 = (bit<64>)count_1;
        } else {
#if ARRAYS == 2
            bool is_in_1 = count_1 != 0 && stored_1 == key;
            bool is_in_2 = count_2 != 0 && stored_2 == key;
            if (!is_in_1 && (is_in_2 || count_2 < count_1)) {
                counts_2.write(index_2, count_2 + 1);
                if ((bit<64>)number * (bit<64>)(count_2 + 1) < 64w1 << 32) {
                    keys_2.write(index_2, key);
                }
            } else
#endif
            {
                counts_1.write(index_1, count_1 + 1);
                if ((bit<64>)number * (bit<64>)(count_1 + 1) < 64w1 << 32) {
                    keys_1.write(index_1, key);
                }
            }
        }
    }
}

control CocoSketchIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;
    CocoSketch() cocosketch;

    apply {
        bit<104> key = 0;
        bit<32> number = 0;
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
            forwarding.apply(hdr, standard_metadata);
        }
        if (hdr.ipv4.isValid() && hdr.ports.isValid()) {
            key = hdr.ipv4.src_addr ++ hdr.ipv4.dst_addr ++ hdr.ipv4.protocol
                ++ hdr.ports.src_port ++ hdr.ports.dst_port;
            random(number, 0, 0xFFFFFFFF);
            hdr.ethernet.src_addr[31:0] = number;
        }
        if (key != 0 || meta.readout.record != 0) {
            cocosketch.apply(key, number, meta.readout);
        }
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    SwitchParser(), SwitchVerifyChecksum(), CocoSketchIngress(), NoEgress(),
    SwitchComputeChecksum(), SwitchDeparser()) main;
