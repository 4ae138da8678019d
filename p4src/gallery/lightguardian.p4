/* LightGuardian (Zhao et al., NSDI 2021): each switch has a SuMax sketch, and passing packets carry
 * it to the hosts in pieces. A piece is a sketchlet: one column of the sketch.
 *
 * SuMax has ROWS rows of COLUMNS cells. A cell has a sum and a maximum: here the number of packets,
 * and the largest latency in the switch. The sum is updated like a conservative update, but in one
 * pass: a row counts the packet only if its sum is not larger than the least sum in earlier rows.
 *
 * There are two sketches. In each window, one of them counts packets. Packets carry the other one,
 * which counted in the previous window. The controller starts the windows. A cell also has the
 * number of its window, so a cell of an earlier window counts as zero. */
#include "../include/hash_function.p4"
#include "../include/headers.p4"

#ifndef COLUMNS
#define COLUMNS 64
#endif

const bit<16> ETHERTYPE_SKETCHLET = 0x88B5;  // a local experimental ethertype of IEEE 802
// CARRIERS of OUT_OF packets without a sketchlet get one.
const bit<32> CARRIERS = 2;
const bit<32> OUT_OF = 10;

header sketchlet_t {  // 24 bytes, as in the paper's testbed; it follows Ethernet
    bit<16> switch_id;
    bit<16> window;
    bit<16> column;
    bit<16> ether_type;  // ethertype of the packet
    bit<32> sum_0;
    bit<32> largest_0;
    bit<32> sum_1;
    bit<32> largest_1;
}

// number of the packet in its trace, so that packets of a flow have different draws
header number_t {
    bit<32> number;
}

struct metadata_t {
    bit<16> window;
    bit<16> switch_id;
    bit<16> column_0;
    bit<16> column_1;
    bit<1> is_counted;
    bit<1> is_carrier;
    bit<16> carried;  // column that the packet carries
    bit<32> sum_0;
    bit<32> sum_1;
}

struct headers_t {
    ethernet_t ethernet;
    sketchlet_t sketchlet;
    ipv4_t ipv4;
    ports_t ports;
    number_t number;
}

/* Returns the cell of a column in the sketch of a window. */
bit<32> cell_of(in bit<16> column, in bit<16> window) {
    return (bit<32>)column + (window[0:0] == 1 ? (bit<32>)COLUMNS : 0);
}

parser LightGuardianParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_SKETCHLET: parse_sketchlet;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_sketchlet {
        packet.extract(hdr.sketchlet);
        transition select(hdr.sketchlet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) {
            (5, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.ports);
        packet.extract(hdr.number);
        transition accept;
    }
}

control LightGuardianVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

/* A row of sums. `least` is the least sum in the rows before it. */
control Sums(
    in metadata_t meta, in bit<16> column, inout bit<32> least, inout bit<32> carried_sum) {
    register<bit<16>>(2 * COLUMNS) windows;
    register<bit<32>>(2 * COLUMNS) sums;

    apply {
        bit<16> window;
        bit<32> sum;
        bit<32> cell = cell_of(column, meta.window);
        windows.read(window, cell);
        sums.read(sum, cell);
        if (window != meta.window) {
            sum = 0;
        }
        if (sum <= least) {
            windows.write(cell, meta.window);
            sums.write(cell, sum + 1);
            least = sum;
        }
        if (meta.is_carrier == 1) {
            cell = cell_of(meta.carried, meta.window - 1);
            windows.read(window, cell);
            sums.read(carried_sum, cell);
            if (window != meta.window - 1) {
                carried_sum = 0;
            }
        }
    }
}

/* A row of maxima. */
control Maxima(
    in metadata_t meta, in bit<16> column, in bit<32> value, inout bit<32> carried_largest) {
    register<bit<16>>(2 * COLUMNS) windows;
    register<bit<32>>(2 * COLUMNS) maxima;

    apply {
        bit<16> window;
        bit<32> largest;
        bit<32> cell = cell_of(column, meta.window);
        windows.read(window, cell);
        maxima.read(largest, cell);
        if (window != meta.window || largest < value) {
            windows.write(cell, meta.window);
            maxima.write(cell, value);
        }
        if (meta.is_carrier == 1) {
            cell = cell_of(meta.carried, meta.window - 1);
            windows.read(window, cell);
            maxima.read(carried_largest, cell);
            if (window != meta.window - 1) {
                carried_largest = 0;
            }
        }
    }
}

/* Draws a column. It is selected if this control has not selected it in this window before. */
control Chance(in bit<32> key, in bit<16> window, inout bit<16> taken, inout bit<1> is_taken) {
    HashFunction() hash_function;
    register<bit<16>>(COLUMNS) windows;

    apply {
        if (is_taken == 0) {
            bit<32> drawn = 0;
            bit<16> last_window;
            hash_function.apply(key, COLUMNS, drawn);
            windows.read(last_window, drawn);
            if (last_window != window) {
                windows.write(drawn, window);
                taken = drawn[15:0];
                is_taken = 1;
            }
        }
    }
}

/* Selects a column by k+chance, with k = 3. Each of the first three draws counts only if the same
 * draw has not selected this column before in this window. The fourth draw always counts. */
control SelectColumn(in bit<32> key, in bit<16> window, inout bit<16> column) {
    Chance() chance_1;
    Chance() chance_2;
    Chance() chance_3;
    HashFunction() hash_function;
    bit<1> is_taken = 0;
    bit<32> drawn = 0;

    apply {
        chance_1.apply(key, window, column, is_taken);
        chance_2.apply(key, window, column, is_taken);
        chance_3.apply(key, window, column, is_taken);
        if (is_taken == 0) {
            hash_function.apply(key, COLUMNS, drawn);
            column = drawn[15:0];
        }
    }
}

control LightGuardianIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    HashFunction() row_0;
    HashFunction() row_1;
    HashFunction() lottery;
    SelectColumn() selection;
    Sums() sums_0;
    Sums() sums_1;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table forwarding {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
    }

    action start_window(bit<16> switch_id, bit<16> window) {
        meta.switch_id = switch_id;
        meta.window = window;
    }

    table current_window {
        actions = { start_window; }
        default_action = start_window(0, 0);
    }

    apply {
        forwarding.apply();
        current_window.apply();
        if (hdr.number.isValid()) {
            bit<32> flow;
            bit<32> key;
            bit<32> column_0 = 0;
            bit<32> column_1 = 0;
            bit<32> drawn = 0;
            bit<32> least = 0xFFFFFFFF;
            meta.is_counted = 1;
            flow_hash.apply(hdr.ipv4, hdr.ports, flow);
            row_0.apply(flow, COLUMNS, column_0);
            row_1.apply(flow, COLUMNS, column_1);
            meta.column_0 = column_0[15:0];
            meta.column_1 = column_1[15:0];
            if (!hdr.sketchlet.isValid()) {
                hash(key, HashAlgorithm.crc32, 32w0, { flow, hdr.number.number }, 64w1 << 32);
                lottery.apply(key, OUT_OF, drawn);
                if (drawn < CARRIERS) {
                    meta.is_carrier = 1;
                    selection.apply(key, meta.window, meta.carried);
                }
            }
            sums_0.apply(meta, meta.column_0, least, meta.sum_0);
            sums_1.apply(meta, meta.column_1, least, meta.sum_1);
        }
    }
}

control LightGuardianEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Maxima() maxima_0;
    Maxima() maxima_1;

    apply {
        if (meta.is_counted == 1) {
            bit<32> largest_0 = 0;
            bit<32> largest_1 = 0;
            bit<32> latency_us =
                (standard_metadata.egress_global_timestamp
                 - standard_metadata.ingress_global_timestamp)[31:0];
            maxima_0.apply(meta, meta.column_0, latency_us, largest_0);
            maxima_1.apply(meta, meta.column_1, latency_us, largest_1);
            if (meta.is_carrier == 1) {
                hdr.sketchlet.setValid();
                hdr.sketchlet.switch_id = meta.switch_id;
                hdr.sketchlet.window = meta.window - 1;
                hdr.sketchlet.column = meta.carried;
                hdr.sketchlet.ether_type = hdr.ethernet.ether_type;
                hdr.sketchlet.sum_0 = meta.sum_0;
                hdr.sketchlet.largest_0 = largest_0;
                hdr.sketchlet.sum_1 = meta.sum_1;
                hdr.sketchlet.largest_1 = largest_1;
                hdr.ethernet.ether_type = ETHERTYPE_SKETCHLET;
            }
        }
    }
}

control LightGuardianComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control LightGuardianDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.sketchlet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
        packet.emit(hdr.number);
    }
}

V1Switch(
    LightGuardianParser(), LightGuardianVerifyChecksum(), LightGuardianIngress(),
    LightGuardianEgress(), LightGuardianComputeChecksum(), LightGuardianDeparser()) main;
