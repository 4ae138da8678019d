/* Multiplexed marking: step and pulse marking with one bit, by time-multiplexed parsing.
 *
 *            |-------- block 0 --------|-------- block 1 --------|
 *   quarter  |  0  |  1  |  2  |  3    |  0  |  1  |  2  |  3    |
 *   bit       0 0 0 0 0 0 0 1 0 0 0 0 0 1 1 1 1 1 1 1 0 1 1 1 1 1     one packet inverted: the pulse
 *   slot       colour| pulse     | colour    | pulse     | colour
 *
 * If the bit differs from the colour of the block, its meaning depends on the arrival time. In the
 * middle half of a block (pulse slot), the packet is the pulse of this block. Otherwise, the packet
 * belongs to the neighbouring block. If clock error + delay < L / 4, no pulse is counted in a wrong
 * block, and no late packet is mistaken for a pulse. The first switch sends the pulse in a window
 * that begins in the middle of the block. If the window has the width w, clock error + delay must
 * be less than L / 4 - w. */
#ifndef TELEMARK_AMPM_MULTIPLEXED_P4
#define TELEMARK_AMPM_MULTIPLEXED_P4

#include "watch.p4"

/* The marking bit in the packet. The first switch writes it after it has selected the pulse; all
 * other switches read it. */
control MultiplexedBit(inout watch_t watch) {
    NearestBlock() nearest_block;
    bit<1> in_pulse_slot = 0;

    action pulse_slot() {
        in_pulse_slot = 1;
    }

    // Meaning of the bit at this time. Slots are ternary ranges of the clock (TimeFlip).
    table slots {
        key = { watch.now_us: ternary; }
        actions = { pulse_slot; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    apply {
        if (watch.first == 1) {
            watch.colour_bit = watch.colour ^ watch.pulse;
        } else {
            slots.apply();
            if (in_pulse_slot == 1) {
                watch.pulse = watch.colour_bit ^ watch.colour;
            } else {
                nearest_block.apply(watch, watch.colour_bit);
            }
        }
    }
}

#endif
