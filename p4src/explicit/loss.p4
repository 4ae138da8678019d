/* Packet loss from the bits Q (square), R (reflection square), L (loss event) and T (round-trip
 * loss).
 *
 * Q and R: the sender inverts the bit after each block of packets. A block of Q has N packets, so N
 * minus the number of observed packets of a block were lost upstream. A block of R has as many
 * packets as its sender received from a block of Q of the opposite direction.
 *
 * L: the sender sets the bit once for each packet that it has detected as lost.
 *
 * T: trains of marked packets pass twice. The difference between their sizes is the loss of a round
 * trip. A spin period without marked packets separates trains. */
#ifndef TELEMARK_EXPLICIT_LOSS_P4
#define TELEMARK_EXPLICIT_LOSS_P4

#include "../include/readout.p4"
#include "watch.p4"

// Records; the index is the stream.
const bit<16> READOUT_SQUARE = 4;      // values: complete blocks, packets in these blocks
const bit<16> READOUT_REFLECTION = 5;  // values: the same for R
const bit<16> READOUT_LOSS = 6;        // values: packets, packets with L
const bit<16> READOUT_TRIP = 7;  // values: pairs of trains, packets in first and in second trains

/* Counts the packets of complete blocks of a square wave. The first block of a stream may be
 * incomplete, so it does not count.
 *
 * After an edge, the previous block stays open for `threshold` packets (marking block threshold).
 * In this time, late packets still belong to the previous block. If a block has more than N
 * packets, all packets of the next block were lost in a burst, and the block after that was counted
 * with it. So it counts as three blocks. */
control SquareBit(
    in stream_t stream, in bit<1> present, in bit<1> value, inout readout_values_t readout)(
    bit<16> record) {
    // State of a stream: bit 0 is the value of the current block, bit 1 shows that there was a
    // packet, bit 2 that the previous block is open, bit 3 that the first block is complete.
    register<bit<8>>(EXPLICIT_STREAMS) states;
    register<bit<32>>(EXPLICIT_STREAMS) current;   // packets in the current block
    register<bit<32>>(EXPLICIT_STREAMS) previous;  // packets in the previous block
    register<bit<32>>(EXPLICIT_STREAMS) after_edge;  // packets since the first of this block
    register<bit<64>>(EXPLICIT_STREAMS) blocks;
    register<bit<64>>(EXPLICIT_STREAMS) packets;

    action count() {
        bit<8> state;
        bit<32> here;
        bit<32> before;
        bit<32> since;
        bit<64> total_blocks;
        bit<64> total_packets;
        states.read(state, stream.index);
        current.read(here, stream.index);
        previous.read(before, stream.index);
        after_edge.read(since, stream.index);
        blocks.read(total_blocks, stream.index);
        packets.read(total_packets, stream.index);
        bool known = state[1:1] == 1;
        bool open = state[2:2] == 1;
        bool is_same = value == state[0:0];
        bool is_edge = known && !is_same && !open;
        bool is_late = known && !is_same && open;
        before = is_edge ? here : (is_late ? before + 1 : before);
        here = is_edge || !known ? 32w1 : (is_same ? here + 1 : here);
        since = is_edge ? 32w0 : since + 1;
        bool closes = (is_edge || open) && since >= stream.threshold;
        bool counts = closes && state[3:3] == 1;
        bit<8> new_value = is_edge || !known ? (bit<8>)value : state & 1;
        bit<8> new_open = (is_edge || open) && !closes ? 8w4 : 8w0;
        bit<8> new_complete = closes ? 8w8 : state & 8;
        states.write(stream.index, new_value | 2 | new_open | new_complete);
        current.write(stream.index, here);
        previous.write(stream.index, before);
        after_edge.write(stream.index, since);
        blocks.write(
            stream.index,
            total_blocks + (counts ? (before > stream.block ? 64w3 : 64w1) : 64w0));
        packets.write(stream.index, total_packets + (counts ? (bit<64>)before : 64w0));
    }

    action read() {
        blocks.read(readout.value_0, readout.index);
        packets.read(readout.value_1, readout.index);
    }

    apply {
        if (readout.record == record) {
            read();
        } else if (present == 1) {
            count();
        }
    }
}

control LossBit(in stream_t stream, inout readout_values_t readout) {
    register<bit<64>>(EXPLICIT_STREAMS) packets;
    register<bit<64>>(EXPLICIT_STREAMS) marked;

    action count() {
        bit<64> number;
        bit<64> number_marked;
        packets.read(number, stream.index);
        marked.read(number_marked, stream.index);
        packets.write(stream.index, number + 1);
        marked.write(stream.index, number_marked + (bit<64>)stream.bit_2);
    }

    action read() {
        packets.read(readout.value_0, readout.index);
        marked.read(readout.value_1, readout.index);
    }

    apply {
        if (readout.record == READOUT_LOSS) {
            read();
        } else if (stream.watched == 1 && stream.scheme == SCHEME_SQL) {
            count();
        }
    }
}

control TripBit(in stream_t stream, inout readout_values_t readout) {
    // State of a stream: bit 0 shows that the spin period had a marked packet, bit 1 that the
    // current train is the second of its pair.
    register<bit<8>>(EXPLICIT_STREAMS) states;
    register<bit<64>>(EXPLICIT_STREAMS) train;  // packets in the current train
    register<bit<64>>(EXPLICIT_STREAMS) first_train;  // packets in the last complete first train
    register<bit<64>>(EXPLICIT_STREAMS) pairs;
    register<bit<64>>(EXPLICIT_STREAMS) generated;  // packets in first trains of all pairs
    register<bit<64>>(EXPLICIT_STREAMS) reflected;  // packets in second trains of all pairs

    action count() {
        bit<8> state;
        bit<64> size;
        bit<64> first;
        bit<64> number;
        bit<64> total_generated;
        bit<64> total_reflected;
        states.read(state, stream.index);
        train.read(size, stream.index);
        first_train.read(first, stream.index);
        pairs.read(number, stream.index);
        generated.read(total_generated, stream.index);
        reflected.read(total_reflected, stream.index);
        bool is_edge = stream.spin_edge == 1;
        bool had_mark = state[0:0] == 1;
        bool is_second = state[1:1] == 1;
        bool ends = is_edge && !had_mark && size > 0;
        bool ends_pair = ends && is_second;
        pairs.write(stream.index, ends_pair ? number + 1 : number);
        generated.write(stream.index, ends_pair ? total_generated + first : total_generated);
        reflected.write(stream.index, ends_pair ? total_reflected + size : total_reflected);
        first_train.write(stream.index, ends && !is_second ? size : first);
        train.write(stream.index, (ends ? 64w0 : size) + (bit<64>)stream.bit_2);
        bit<8> new_mark = is_edge ? (bit<8>)stream.bit_2 : (state & 1) | (bit<8>)stream.bit_2;
        bit<8> new_second = ends ? (state & 2) ^ 2 : state & 2;
        states.write(stream.index, new_mark | new_second);
    }

    action read() {
        pairs.read(readout.value_0, readout.index);
        generated.read(readout.value_1, readout.index);
        reflected.read(readout.value_2, readout.index);
    }

    apply {
        if (readout.record == READOUT_TRIP) {
            read();
        } else if (stream.watched == 1 && stream.scheme == SCHEME_SDT) {
            count();
        }
    }
}

#endif
