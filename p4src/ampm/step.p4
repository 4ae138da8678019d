/* Step (alternate) marking with one bit: RFC 9341 section 3.1. It measures loss, first-packet delay
 * and mean delay.
 *
 *            block 0        block 1        block 2
 *     time |--------------|--------------|--------------|   block = time / L
 *   colour  0 0 0 0 0 0 0  1 1 1 1 1 1 1  0 0 0 0 0 0 0     colour = block mod 2
 *
 * The source switch colours each packet of a watched flow. The block in which the packet arrives
 * determines the colour. Every switch counts the packets of each colour, both when they arrive and
 * when they depart. During block 1, the counters of colour 0 do not change, so the controller can
 * read them at all switches of the path. All these counters count the same packets: the packets
 * of block 0. So the difference between two counters is the loss between these counters. Counters
 * are read half a block after the end of a block. So no packet is counted in a wrong block if clock
 * error + path delay < L / 2.
 *
 *     s1: mark, count  ------link------  count, s2, count  ------link------  count, s3: count, clear
 *               departures         arrivals       departures         arrivals       departures
 *
 * A loss in the queue of a switch shows between the arrivals and the departures of this switch. A
 * loss on a link shows between the departures of one switch and the arrivals of the next switch. */
#ifndef TELEMARK_AMPM_STEP_P4
#define TELEMARK_AMPM_STEP_P4

#include "watch.p4"

/* The colour bit in the packet: the first switch writes it, and all other switches read it. */
control StepColour(inout watch_t watch) {
    NearestBlock() nearest_block;

    apply {
        if (watch.first == 1) {
            watch.colour_bit = watch.colour;
        } else {
            nearest_block.apply(watch, watch.colour_bit);
        }
    }
}

const bit<16> READOUT_BLOCK = 1;  // index: cell; values: block_us, packets, sum_us, first_us

/* Record of a block at one measuring point. It has the number of packets, the sum of their times
 * since the start of the block (for the mean delay: RFC 9341 section 3.2.1.1), and the time of the
 * first packet (section 3.2.1). The first packet of the next block of the same colour resets the
 * record. */
control BlockRecord(
    in watch_t watch, in bit<48> time_us, inout readout_values_t readout) {
    register<bit<48>>(AMPM_CELLS) block_us;
    register<bit<48>>(AMPM_CELLS) packets;
    register<bit<64>>(AMPM_CELLS) sum_us;  // signed, because the switch's clock may be slow
    register<bit<48>>(AMPM_CELLS) first_us;

    action record() {
        bit<48> block;
        bit<48> count;
        bit<64> sum;
        bit<48> first;
        block_us.read(block, watch.cell);
        packets.read(count, watch.cell);
        sum_us.read(sum, watch.cell);
        first_us.read(first, watch.cell);
        bool is_new = count == 0 || block != watch.block_us;
        int<48> since_us = (int<48>)(time_us - watch.block_us);
        block_us.write(watch.cell, watch.block_us);
        packets.write(watch.cell, is_new ? 48w1 : count + 1);
        sum_us.write(watch.cell, (is_new ? 64w0 : sum) + (bit<64>)(int<64>)since_us);
        first_us.write(watch.cell, is_new ? time_us : first);
    }

    action read() {
        bit<48> block;
        bit<48> count;
        bit<48> first;
        block_us.read(block, readout.index);
        packets.read(count, readout.index);
        sum_us.read(readout.value_2, readout.index);
        first_us.read(first, readout.index);
        readout.value_0 = (bit<64>)block;
        readout.value_1 = (bit<64>)count;
        readout.value_3 = (bit<64>)first;
    }

    apply {
        if (readout.record == READOUT_BLOCK) {
            read();
        } else if (watch.watched == 1) {
            record();
        }
    }
}

#endif
