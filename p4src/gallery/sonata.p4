/* Sonata (Gupta et al., SIGCOMM 2018): five queries over packets, each with the operators filter,
 * map, distinct, reduce and threshold.
 *
 * A packet is a tuple of 128 bits. The entries of a query's plan select packets (filter, and
 * prefixes to refine), and set which bits the operators distinct and reduce compare. If a table has
 * no place for a tuple, the switch reports the tuple, so that the stream processor can complete the
 * query. Otherwise, the switch reports a key once, when its count reaches the threshold.
 *
 * Reports are stored in a log, which the controller reads at the end of a window. A window needs no
 * reset: a cell that was written in an earlier window is empty. */
#include "../include/forwarding.p4"
#include "../include/hash_function.p4"

#ifndef CELLS
#define CELLS 64  // cells in an array; distinct and reduce have two arrays each
#endif
#ifndef LOG
#define LOG 64  // reports in the log
#endif

const bit<2> NOTHING = 0;
const bit<2> REACHED = 1;           // the count has reached the threshold
const bit<2> DISTINCT_OVERFLOW = 2; // no place in distinct
const bit<2> REDUCE_OVERFLOW = 3;   // no place in reduce

// Record 1 is the log. Values: tuple (lower, upper half), results of all queries, number of reports
// so far. Record 2n is the first array of reduce of query n, and record 2n + 1 is the second one.
// Values: key (lower, upper half), window, count.
const bit<16> LOG_RECORD = 1;
const bit<16> NO_RECORD = 0xFFFF;

struct metadata_t {
    readout_values_t readout;
    bit<8> flags;
}

#include "../include/switch.p4"

parser SonataParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    HeadersParser() headers_parser;

    state start {
        headers_parser.apply(packet, hdr, standard_metadata);
        transition select(hdr.ipv4.isValid(), hdr.ports.isValid()) {
            (true, true): parse_protocol;
            default: accept;
        }
    }

    state parse_protocol {
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_TCP: parse_flags;
            default: accept;
        }
    }

    state parse_flags {
        bit<48> next = packet.lookahead<bit<48>>();
        meta.flags = next[7:0];
        transition accept;
    }
}

/* Counts a key in this window. If the cell has another key, the count stays 0. */
control Array(
    in bit<16> record, in bit<128> key, in bit<32> window, inout bit<32> count,
    inout readout_values_t readout) {
    HashFunction() hash_function;
    register<bit<128>>(CELLS) keys;
    register<bit<32>>(CELLS) windows;
    register<bit<32>>(CELLS) counts;

    apply {
        bit<128> stored_key;
        bit<32> stored_window;
        bit<32> stored_count;
        bit<32> index = 0;
        if (readout.record == record) {
            index = readout.index;
        } else if (readout.record == 0) {
            bit<32> hashed;
            hash(hashed, HashAlgorithm.crc32, 32w0, { key }, 64w1 << 32);
            hash_function.apply(hashed, CELLS, index);
        }
        keys.read(stored_key, index);
        windows.read(stored_window, index);
        counts.read(stored_count, index);
        if (readout.record == record) {
            readout.value_0 = stored_key[63:0];
            readout.value_1 = stored_key[127:64];
            readout.value_2 = (bit<64>)stored_window;
            readout.value_3 = (bit<64>)stored_count;
        } else if (readout.record == 0 && count == 0) {
            if (stored_window != window) {
                count = 1;
            } else if (stored_key == key) {
                count = stored_count + 1;
            }
            if (count != 0) {
                keys.write(index, key);
                windows.write(index, window);
                counts.write(index, count);
            }
        }
    }
}

control Query(
    in bit<16> record, in bit<128> fields, out bit<2> result, inout readout_values_t readout) {
    Array() distinct_1;
    Array() distinct_2;
    Array() reduce_1;
    Array() reduce_2;
    bit<32> window = 0;
    bit<128> distinct = 0;
    bool has_distinct = false;
    bit<128> reduced = 0;
    bit<32> threshold = 0;

    action run(
        bit<32> number, bit<128> distinct_mask, bit<128> key_mask, bit<32> min_count) {
        window = number;
        distinct = fields & distinct_mask;
        has_distinct = distinct_mask != 0;
        reduced = fields & key_mask;
        threshold = min_count;
    }

    action skip() { }

    table plan {
        key = { fields: ternary; }
        actions = { run; skip; }
        default_action = skip();
        size = 1024;
    }

    apply {
        bit<32> occurrences = 0;
        bit<32> count = 0;
        result = NOTHING;
        if (readout.record == 0) {
            plan.apply();
        }
        if (window != 0 && !has_distinct) {
            occurrences = 1;
        } else if (window != 0) {
            distinct_1.apply(NO_RECORD, distinct, window, occurrences, readout);
            distinct_2.apply(NO_RECORD, distinct, window, occurrences, readout);
            if (occurrences == 0) {
                result = DISTINCT_OVERFLOW;
            }
        }
        if (occurrences == 1 || readout.record != 0) {
            reduce_1.apply(record, reduced, window, count, readout);
            reduce_2.apply(record + 1, reduced, window, count, readout);
            if (readout.record == 0 && count == 0) {
                result = REDUCE_OVERFLOW;
            } else if (count != 0 && count == threshold) {
                result = REACHED;
            }
        }
    }
}

control SonataIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;
    Query() query_1;
    Query() query_2;
    Query() query_3;
    Query() query_4;
    Query() query_5;
    register<bit<128>>(LOG) log;
    register<bit<16>>(LOG) log_results;
    register<bit<32>>(1) logged;

    apply {
        bit<128> fields = 0;
        bit<2> result_1 = NOTHING;
        bit<2> result_2 = NOTHING;
        bit<2> result_3 = NOTHING;
        bit<2> result_4 = NOTHING;
        bit<2> result_5 = NOTHING;
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
            forwarding.apply(hdr, standard_metadata);
        }
        if (hdr.ipv4.isValid() && hdr.ports.isValid()) {
            fields = hdr.ipv4.src_addr ++ hdr.ipv4.dst_addr ++ hdr.ipv4.protocol ++ meta.flags
                ++ hdr.ports.src_port ++ hdr.ports.dst_port ++ hdr.ipv4.total_length;
        }
        if (fields != 0 || meta.readout.record != 0) {
            query_1.apply(2, fields, result_1, meta.readout);
            query_2.apply(4, fields, result_2, meta.readout);
            query_3.apply(6, fields, result_3, meta.readout);
            query_4.apply(8, fields, result_4, meta.readout);
            query_5.apply(10, fields, result_5, meta.readout);
        }
        bit<16> results = 6w0 ++ result_5 ++ result_4 ++ result_3 ++ result_2 ++ result_1;
        bit<32> number;
        logged.read(number, 0);
        if (meta.readout.record == LOG_RECORD) {
            bit<128> stored;
            bit<16> stored_results;
            log.read(stored, meta.readout.index);
            log_results.read(stored_results, meta.readout.index);
            meta.readout.value_0 = stored[63:0];
            meta.readout.value_1 = stored[127:64];
            meta.readout.value_2 = (bit<64>)stored_results;
            meta.readout.value_3 = (bit<64>)number;
        } else if (results != 0) {
            if (number < LOG) {
                log.write(number, fields);
                log_results.write(number, results);
            }
            logged.write(0, number + 1);
        }
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    SonataParser(), SwitchVerifyChecksum(), SonataIngress(), NoEgress(), SwitchComputeChecksum(),
    SwitchDeparser()) main;
