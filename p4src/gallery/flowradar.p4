/* FlowRadar (Li et al., NSDI 2016): stores all flows and their packet counts in tables of constant
 * size, with constant time per packet. A collector decodes the tables.
 *
 * The flow filter, a Bloom filter, detects the first packet of a flow. A flow has one cell in each
 * section of the counting table. The first packet of the flow adds the key of the flow to these
 * cells, and each packet increments their packet counts. */
#include "../include/forwarding.p4"

#ifndef SECTIONS
#define SECTIONS 4  // sections of the counting table: 3 or 4
#endif
#ifndef CELLS
#define CELLS 64  // cells in a section of the counting table
#endif
#ifndef FILTER_WORDS
#define FILTER_WORDS 64  // 64-bit words in a section of the flow filter
#endif

// Records 1 to 4 are the sections of the counting table. Values: lower 64 bits of the flows (XOR),
// upper 40 bits, number of flows, number of packets. Records 101 to 120 are the sections of the
// flow filter. Values: four words; word 4 * index is the first one.

struct metadata_t {
    readout_values_t readout;
}

#include "../include/switch.p4"

/* Position of a flow in a section: a hash function that the controller chooses at random. It is the
 * function of hash_function.p4 for keys of four words. */
control Position(in headers_t hdr, in bit<32> width, inout bit<32> index) {
    action choose(bit<64> a, bit<64> b, bit<64> c, bit<64> d, bit<64> e) {
        bit<64> hashed = a * (bit<64>)hdr.ipv4.src_addr + b * (bit<64>)hdr.ipv4.dst_addr
            + c * (bit<64>)(hdr.ports.src_port ++ hdr.ports.dst_port)
            + d * (bit<64>)hdr.ipv4.protocol + e;
        index = (((hashed >> 32) * (bit<64>)width) >> 32)[31:0];
    }

    table function {
        actions = { choose; }
        default_action = choose(0, 0, 0, 0, 0);
    }

    apply {
        function.apply();
    }
}

/* Section of the flow filter. Sets the bit of the flow. If the bit was 0, the flow is new. */
control FilterSection(
    in bit<16> number, in headers_t hdr, in bool counted, inout bool is_new,
    inout readout_values_t readout) {
    Position() position;
    register<bit<64>>(FILTER_WORDS) words;

    apply {
        bit<32> index = 0;
        bit<64> word;
        if (readout.record == 100 + number) {
            words.read(readout.value_0, readout.index << 2);
            words.read(readout.value_1, (readout.index << 2) + 1);
            words.read(readout.value_2, (readout.index << 2) + 2);
            words.read(readout.value_3, (readout.index << 2) + 3);
        } else if (counted) {
            position.apply(hdr, FILTER_WORDS * 64, index);
            words.read(word, index >> 6);
            bit<64> flag = 64w1 << (bit<8>)index[5:0];
            if (word & flag == 0) {
                is_new = true;
                words.write(index >> 6, word | flag);
            }
        }
    }
}

/* Section of the counting table. */
control TableSection(
    in bit<16> number, in headers_t hdr, in bit<104> flow, in bool counted, in bool is_new,
    inout readout_values_t readout) {
    Position() position;
    register<bit<104>>(CELLS) flow_xor;
    register<bit<32>>(CELLS) flow_count;
    register<bit<32>>(CELLS) packet_count;

    apply {
        bit<32> index = readout.index;
        bit<104> flows;
        bit<32> number_of_flows;
        bit<32> packets;
        if (readout.record == number) {
            flow_xor.read(flows, index);
            flow_count.read(number_of_flows, index);
            packet_count.read(packets, index);
            readout.value_0 = flows[63:0];
            readout.value_1 = (bit<64>)flows[103:64];
            readout.value_2 = (bit<64>)number_of_flows;
            readout.value_3 = (bit<64>)packets;
        } else if (counted) {
            position.apply(hdr, CELLS, index);
            if (is_new) {
                flow_xor.read(flows, index);
                flow_xor.write(index, flows ^ flow);
                flow_count.read(number_of_flows, index);
                flow_count.write(index, number_of_flows + 1);
            }
            packet_count.read(packets, index);
            packet_count.write(index, packets + 1);
        }
    }
}

control FlowRadarIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;
    FilterSection() filter_1;
    FilterSection() filter_2;
    FilterSection() filter_3;
    FilterSection() filter_4;
    FilterSection() filter_5;
    FilterSection() filter_6;
    FilterSection() filter_7;
    FilterSection() filter_8;
    FilterSection() filter_9;
    FilterSection() filter_10;
    FilterSection() filter_11;
    FilterSection() filter_12;
    FilterSection() filter_13;
    FilterSection() filter_14;
    FilterSection() filter_15;
    FilterSection() filter_16;
    FilterSection() filter_17;
    FilterSection() filter_18;
    FilterSection() filter_19;
    FilterSection() filter_20;
    TableSection() table_1;
    TableSection() table_2;
    TableSection() table_3;
#if SECTIONS == 4
    TableSection() table_4;
#endif

    apply {
        bit<104> flow = 0;
        bool is_new = false;
        bool counted = hdr.ipv4.isValid() && hdr.ports.isValid();
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
            forwarding.apply(hdr, standard_metadata);
        }
        if (counted) {
            flow = hdr.ipv4.src_addr ++ hdr.ipv4.dst_addr ++ hdr.ipv4.protocol
                ++ hdr.ports.src_port ++ hdr.ports.dst_port;
        }
        filter_1.apply(1, hdr, counted, is_new, meta.readout);
        filter_2.apply(2, hdr, counted, is_new, meta.readout);
        filter_3.apply(3, hdr, counted, is_new, meta.readout);
        filter_4.apply(4, hdr, counted, is_new, meta.readout);
        filter_5.apply(5, hdr, counted, is_new, meta.readout);
        filter_6.apply(6, hdr, counted, is_new, meta.readout);
        filter_7.apply(7, hdr, counted, is_new, meta.readout);
        filter_8.apply(8, hdr, counted, is_new, meta.readout);
        filter_9.apply(9, hdr, counted, is_new, meta.readout);
        filter_10.apply(10, hdr, counted, is_new, meta.readout);
        filter_11.apply(11, hdr, counted, is_new, meta.readout);
        filter_12.apply(12, hdr, counted, is_new, meta.readout);
        filter_13.apply(13, hdr, counted, is_new, meta.readout);
        filter_14.apply(14, hdr, counted, is_new, meta.readout);
        filter_15.apply(15, hdr, counted, is_new, meta.readout);
        filter_16.apply(16, hdr, counted, is_new, meta.readout);
        filter_17.apply(17, hdr, counted, is_new, meta.readout);
        filter_18.apply(18, hdr, counted, is_new, meta.readout);
        filter_19.apply(19, hdr, counted, is_new, meta.readout);
        filter_20.apply(20, hdr, counted, is_new, meta.readout);
        table_1.apply(1, hdr, flow, counted, is_new, meta.readout);
        table_2.apply(2, hdr, flow, counted, is_new, meta.readout);
        table_3.apply(3, hdr, flow, counted, is_new, meta.readout);
#if SECTIONS == 4
        table_4.apply(4, hdr, flow, counted, is_new, meta.readout);
#endif
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    SwitchParser(), SwitchVerifyChecksum(), FlowRadarIngress(), NoEgress(),
    SwitchComputeChecksum(), SwitchDeparser()) main;
