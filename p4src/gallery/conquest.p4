/* ConQuest (Chen et al., CoNEXT 2019): estimates how many bytes of a packet's flow were in the
 * queue, and marks the packet if this number is large.
 *
 * Time consists of windows. A snapshot is a Count-Min sketch of the bytes per flow that left the
 * queue in one window. Snapshots are used in turn: in each window, one snapshot counts, one is
 * cleaned, and the others are read. While a packet waits, the packets in front of it leave the
 * queue. So the estimate is the sum of the counts in the windows from its arrival to its departure.
 * Each packet cleans one column. */
#include "../include/forwarding.p4"
#include "../include/hash_function.p4"

#ifndef COLUMNS
#define COLUMNS 800
#endif
#ifndef WINDOW_SHIFT
#define WINDOW_SHIFT 8  // a window has 2^WINDOW_SHIFT us
#endif
#ifndef HEAVY_BYTES
#define HEAVY_BYTES 131072  // packets are marked if their flow has so many bytes in the queue
#endif
#ifndef MIN_DELAY_US
#define MIN_DELAY_US 512  // packets that waited less are not marked
#endif

const bit<3> CLEANING = 7;  // age of the snapshot that is cleaned: it is the next to count
const bit<32> MAX_AGE = 6;  // age of the oldest snapshot that is read

// Record 1 has the first two snapshots. Values: both rows of each.

struct metadata_t {
    readout_values_t readout;
}

#include "../include/switch.p4"

struct query_t {
    bit<3> current;      // snapshot that counts
    bit<32> ages;        // age of the window in which the packet arrived, at most MAX_AGE
    bit<32> row_0;       // column of the flow in each row
    bit<32> row_1;
    bit<32> cleaning;    // column that is cleaned
    bit<32> bytes;       // bytes of the packet; 0 if it is no packet of a flow
}

control Snapshot(
    in bit<3> number, in query_t query, inout bit<32> total, inout readout_values_t readout) {
    register<bit<32>>(COLUMNS) row_0;
    register<bit<32>>(COLUMNS) row_1;

    action read_cells() {
        bit<32> first;
        bit<32> second;
        row_0.read(first, readout.index);
        row_1.read(second, readout.index);
        if (number[0:0] == 0) {
            readout.value_0 = (bit<64>)first;
            readout.value_1 = (bit<64>)second;
        } else {
            readout.value_2 = (bit<64>)first;
            readout.value_3 = (bit<64>)second;
        }
    }

    action use_cells() {
        bit<32> first;
        bit<32> second;
        bit<3> age = query.current - number;
        row_0.read(first, query.row_0);
        row_1.read(second, query.row_1);
        if (age == 0) {
            first = first + query.bytes;
            second = second + query.bytes;
            row_0.write(query.row_0, first);
            row_1.write(query.row_1, second);
        }
        if (age == CLEANING) {
            row_0.write(query.cleaning, 0);
            row_1.write(query.cleaning, 0);
        } else if ((bit<32>)age <= query.ages) {
            total = total + (first < second ? first : second);
        }
    }

    apply {
        if (query.bytes != 0) {
            use_cells();
        } else if (readout.record == (bit<16>)number[2:1] + 1) {
            read_cells();
        }
    }
}

control ConQuestIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;

    apply {
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
            forwarding.apply(hdr, standard_metadata);
        }
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

control ConQuestEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    HashFunction() hash_0;
    HashFunction() hash_1;
    ReadoutDeparture() readout_departure;
    register<bit<32>>(1) cleaning;
    Snapshot() snapshot_0;
    Snapshot() snapshot_1;
    Snapshot() snapshot_2;
    Snapshot() snapshot_3;
    Snapshot() snapshot_4;
    Snapshot() snapshot_5;
    Snapshot() snapshot_6;
    Snapshot() snapshot_7;

    action clean_next(inout bit<32> column) {
        cleaning.read(column, 0);
        cleaning.write(0, column + 1 == COLUMNS ? 0 : column + 1);
    }

    action mark() {
        bit<16> before = hdr.ipv4.version ++ hdr.ipv4.ihl ++ hdr.ipv4.dscp ++ hdr.ipv4.ecn;
        hdr.ipv4.ecn = 3;
        hdr.ipv4.checksum = changed_checksum(hdr.ipv4.checksum, before, before | 3);
    }

    apply {
        query_t query = { 0, 0, 0, 0, 0, 0 };
        bit<32> total = 0;
        bit<48> delay_us = 0;
        if (hdr.ipv4.isValid() && hdr.ports.isValid()) {
            bit<48> now_us = standard_metadata.egress_global_timestamp;
            bit<48> arrived_us = standard_metadata.ingress_global_timestamp;
            delay_us = now_us - arrived_us;
            bit<48> window = now_us >> WINDOW_SHIFT;
            bit<48> ages = window - (arrived_us >> WINDOW_SHIFT);
            bit<32> flow;
            flow_hash.apply(hdr.ipv4, hdr.ports, flow);
            hash_0.apply(flow, COLUMNS, query.row_0);
            hash_1.apply(flow, COLUMNS, query.row_1);
            query.current = window[2:0];
            query.ages = ages > (bit<48>)MAX_AGE ? MAX_AGE : ages[31:0];
            query.bytes = (bit<32>)hdr.ipv4.total_length;
            clean_next(query.cleaning);
        }
        snapshot_0.apply(0, query, total, meta.readout);
        snapshot_1.apply(1, query, total, meta.readout);
        snapshot_2.apply(2, query, total, meta.readout);
        snapshot_3.apply(3, query, total, meta.readout);
        snapshot_4.apply(4, query, total, meta.readout);
        snapshot_5.apply(5, query, total, meta.readout);
        snapshot_6.apply(6, query, total, meta.readout);
        snapshot_7.apply(7, query, total, meta.readout);
        if (total >= HEAVY_BYTES && delay_us >= MIN_DELAY_US) {
            mark();
        }
        readout_departure.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    SwitchParser(), SwitchVerifyChecksum(), ConQuestIngress(), ConQuestEgress(),
    SwitchComputeChecksum(), SwitchDeparser()) main;
