/* Pulse marking: one packet per block is marked. The delay is the difference between the times of
 * this packet at two measuring points. When the marked packet passes, each point reads its packet
 * count. The loss is the difference between these counts.
 *
 *          |------------ block ------------|
 *   first  |        [counting interval]    |
 *   switch  . . . . . P . . . . . . . . . .     P: first packet inside the interval
 *
 *   next    . . . . . . . . P . . . . . . .     delay: difference of P's times
 *   point   1 2 3 ...     n at P                loss between two pulses: difference of the counts' growth
 *
 * Without step marking, pulse marking uses only the D bit. A point assigns a pulse to the block in
 * which the pulse arrives. This is correct if clock error + delay < L / 4, because the interval is
 * the middle half of the block. The error of the count is the number of packets that overtake the
 * pulse, or that the pulse overtakes.
 *
 * Double marking is pulse marking together with step marking (RFC 9341 section 3.2.2). The colour
 * of the pulse then determines its block. The loss is computed from the counts per colour, so it
 * does not depend on the order of packets. This is correct if clock error + delay < L / 2. The
 * record also shows whether the pulse of a block was lost or duplicated. */
#ifndef TELEMARK_AMPM_PULSE_P4
#define TELEMARK_AMPM_PULSE_P4

#include "watch.p4"

/* At the first switch: selects one packet per block. It is the first packet in the window. */
control PulseChoice(inout watch_t watch) {
    register<bit<48>>(AMPM_FLOWS) latch;  // start of the block of the latest pulse, plus 1

    // One action tests and sets the latch. So only one packet is selected.
    action choose() {
        bit<48> latched;
        latch.read(latched, watch.flow);
        watch.pulse = latched != watch.block_us + 1 ? 1w1 : 1w0;
        // plus 1, because 0 is the value of an unused register
        latch.write(watch.flow, watch.block_us + 1);
    }

    // Time window in which a method sends its pulse. The window is a part of the block, given as a
    // ternary range of the clock (TimeFlip).
    table pulse_window {
        key = {
            watch.methods: ternary;
            watch.now_us: ternary;
        }
        actions = { choose; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        pulse_window.apply();
    }
}

/* The pulse bit in the packet: the first switch writes it, and all others read it. */
control PulseBit(inout watch_t watch) {
    apply {
        if (watch.first == 1) {
            watch.pulse_bit = watch.pulse;
        } else {
            watch.pulse = watch.pulse_bit;
        }
    }
}

const bit<16> READOUT_PULSE = 2;  // index: cell; values: block_us, pulses, time_us, packets

/* Record of the pulse of a block at one measuring point. It has the number of pulses (another
 * number than 1 is an error), the time of the first pulse, and the number of packets of the flow up
 * to this pulse (included). */
control PulseRecord(
    in watch_t watch, in bit<48> time_us, inout readout_values_t readout) {
    register<bit<48>>(AMPM_FLOWS) running;  // packets of the flow in all blocks
    register<bit<48>>(AMPM_CELLS) block_us;
    register<bit<48>>(AMPM_CELLS) pulses;
    register<bit<48>>(AMPM_CELLS) pulse_us;
    register<bit<48>>(AMPM_CELLS) packets;

    action count_packet() {
        bit<48> count;
        running.read(count, watch.flow);
        running.write(watch.flow, count + 1);
    }

    action count_pulse() {
        bit<48> count;
        bit<48> block;
        bit<48> number;
        bit<48> time;
        bit<48> snapshot;
        running.read(count, watch.flow);
        block_us.read(block, watch.cell);
        pulses.read(number, watch.cell);
        pulse_us.read(time, watch.cell);
        packets.read(snapshot, watch.cell);
        bool is_new = number == 0 || block != watch.block_us;
        running.write(watch.flow, count + 1);
        block_us.write(watch.cell, watch.block_us);
        pulses.write(watch.cell, is_new ? 48w1 : number + 1);
        pulse_us.write(watch.cell, is_new ? time_us : time);
        packets.write(watch.cell, is_new ? count + 1 : snapshot);
    }

    action read() {
        bit<48> block;
        bit<48> number;
        bit<48> time;
        bit<48> snapshot;
        block_us.read(block, readout.index);
        pulses.read(number, readout.index);
        pulse_us.read(time, readout.index);
        packets.read(snapshot, readout.index);
        readout.value_0 = (bit<64>)block;
        readout.value_1 = (bit<64>)number;
        readout.value_2 = (bit<64>)time;
        readout.value_3 = (bit<64>)snapshot;
    }

    apply {
        if (readout.record == READOUT_PULSE) {
            read();
        } else if (watch.watched == 1) {
            if (watch.pulse == 1) {
                count_pulse();
            } else {
                count_packet();
            }
        }
    }
}

#endif
