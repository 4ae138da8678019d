/* All methods of alternate marking. Each flow uses one or several methods. */
#ifndef TELEMARK_AMPM_METHODS_P4
#define TELEMARK_AMPM_METHODS_P4

#include "hashed.p4"
#include "multiplexed.p4"
#include "pulse.p4"
#include "step.p4"
#include "watch.p4"

/* Applies the methods of a flow. They determine the block of a packet, and whether the packet is
 * the pulse. */
control Methods(in headers_t hdr, inout watch_t watch, inout sample_t sample) {
    PulseChoice() pulse_choice;
    StepColour() step_colour;
    MultiplexedBit() multiplexed_bit;
    PulseBit() pulse_bit;
    HashedChoice() hashed_choice;

    apply {
        if (watch.first == 1) {
            pulse_choice.apply(watch);
        }
        if ((watch.methods & METHOD_MULTIPLEXED) != 0) {
            multiplexed_bit.apply(watch);
        } else {
            if ((watch.methods & METHOD_STEP) != 0) {
                step_colour.apply(watch);
            }
            if ((watch.methods & METHOD_PULSE) != 0) {
                pulse_bit.apply(watch);
            }
        }
        watch.cell = (watch.flow << 1) + (bit<32>)watch.colour;
        if ((watch.methods & METHOD_HASHED) != 0) {
            hashed_choice.apply(hdr, watch, sample);
        }
    }
}

#endif
