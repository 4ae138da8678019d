/* Step (alternate) marking for loss: RFC 9341 section 3.1, with one bit.
 *
 *            block 0        block 1        block 2
 *     time |--------------|--------------|--------------|   block = time / L
 *   colour  0 0 0 0 0 0 0  1 1 1 1 1 1 1  0 0 0 0 0 0 0     colour = block mod 2
 *
 * The source switch colours each packet of a watched flow by the block in which it arrives. Every
 * switch counts the packets of each colour where they enter it and where they leave it. During block
 * 1 nobody counts colour 0 any more, so the controller can read all colour 0 counters along the path
 * at leisure: they all speak of the very same packets, those of block 0, and the difference between
 * two of them is what was lost in between. No packet is counted in a wrong block as long as
 * clock error + path delay < L / 2, when counters are read half a block after the switch.
 *
 *     s1: mark, count  ------link------  count, s2, count  ------link------  count, s3: count, clear
 *               departures         arrivals       departures         arrivals       departures
 *
 * A packet lost in the queue of a switch is between its arrival and its departure; one lost on a
 * link is between the departure from one switch and the arrival at the next. */
#ifndef TELEMARK_AMPM_STEP_P4
#define TELEMARK_AMPM_STEP_P4

#include "../include/allocation.p4"
#include "../include/headers.p4"

#define AMPM_FLOWS 1024

struct step_t {
    bit<1> watched;  // the packet belongs to a flow on the watch list
    bit<16> flow;    // the flow's number, as the controller gave it
    bit<1> last;     // this switch is the last of the domain: the colour is cleared here
}

control StepIngress(
    inout headers_t hdr, inout step_t step, in standard_metadata_t standard_metadata) {
    // Packets and bytes by flow and colour, at index 2 * flow + colour.
    counter(2 * AMPM_FLOWS, CounterType.packets_and_bytes) arrivals;

    bit<48> now_us;  // the common clock of all switches

    // A switch's clock starts anywhere; the controller finds how far it is from the common clock.
    action set_clock_offset(bit<48> offset_us) {
        now_us = standard_metadata.ingress_global_timestamp + offset_us;
    }

    table clock {
        actions = { set_clock_offset; }
        default_action = set_clock_offset(0);
    }

    // At the flow's first switch. A block lasts 2^block_shift microseconds.
    action mark(bit<16> flow, bit<8> block_shift) {
        step.watched = 1;
        step.flow = flow;
        AMPM_COLOUR(hdr.ipv4) = (bit<1>)(now_us >> block_shift);
    }

    // At every switch after it.
    action observe(bit<16> flow) {
        step.watched = 1;
        step.flow = flow;
    }

    // At the last one.
    action observe_and_clear(bit<16> flow) {
        step.watched = 1;
        step.flow = flow;
        step.last = 1;
    }

    // What a flow is: addresses and ports, each of which may be left open by its mask.
    table watch_list {
        key = {
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.ipv4.protocol: ternary;
            hdr.ports.src_port: ternary;
            hdr.ports.dst_port: ternary;
        }
        actions = { mark; observe; observe_and_clear; NoAction; }
        default_action = NoAction();
        size = AMPM_FLOWS;
    }

    apply {
        if (hdr.ports.isValid()) {
            clock.apply();
            watch_list.apply();
            if (step.watched == 1) {
                arrivals.count(2 * (bit<32>)step.flow + (bit<32>)AMPM_COLOUR(hdr.ipv4));
            }
        }
    }
}

control StepEgress(inout headers_t hdr, in step_t step) {
    counter(2 * AMPM_FLOWS, CounterType.packets_and_bytes) departures;

    apply {
        if (step.watched == 1) {
            departures.count(2 * (bit<32>)step.flow + (bit<32>)AMPM_COLOUR(hdr.ipv4));
            if (step.last == 1) {
                AMPM_COLOUR(hdr.ipv4) = 0;  // the hosts never see the mark
            }
        }
    }
}

#endif
