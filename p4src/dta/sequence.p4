/* Reports that a reporter sent and that did not come: by their sequence numbers. */
#ifndef TELEMARK_DTA_SEQUENCE_P4
#define TELEMARK_DTA_SEQUENCE_P4

#include "../include/readout.p4"
#include "plan.p4"

// So many reports of a reporter are remembered, a power of two: of these it is known which came.
#define DTA_WINDOW 1024
const bit<32> WINDOW = DTA_WINDOW;

register<bit<32>>(DTA_REPORTERS) dta_expected;  // the number of the next report
register<bit<32>>(DTA_REPORTERS) dta_missing;   // reports that have not come so far
// By reporter and the number's low bits: which report came last, with IS_HERE before it, or 0.
register<bit<33>>(DTA_REPORTERS * DTA_WINDOW) dta_here;
#if DTA_NACK_TRACKING
register<bit<9>>(DTA_REPORTERS) dta_last;  // the prototype's, in the same way
#endif

const bit<1> IS_HERE = 1;

#define HERE(reporter, sequence) \
    (((bit<32>)(reporter) * WINDOW) | ((sequence) & (WINDOW - 1)))

// Numbers of readout records.
const bit<16> REPORTER_STATE = 6;   // index: the reporter; the next number, reports missing
const bit<16> REPORTER_WINDOW = 7;  // index: eight cells of dta_here; written only, to be empty

control ReporterAccess(inout readout_values_t readout) {
    bit<32> reporter = readout.index & (DTA_REPORTERS - 1);
    bit<32> cells = (readout.index << 3) & (DTA_REPORTERS * DTA_WINDOW - 1);

    action read_state() {
        bit<32> expected;
        bit<32> missing;
        dta_expected.read(expected, reporter);
        dta_missing.read(missing, reporter);
        readout.value_0 = (bit<64>)expected;
        readout.value_1 = (bit<64>)missing;
    }

    action write_state() {
        dta_expected.write(reporter, (bit<32>)readout.value_0);
        dta_missing.write(reporter, (bit<32>)readout.value_1);
    }

    action clear_cells() {
        dta_here.write(cells, 0);
        dta_here.write(cells + 1, 0);
        dta_here.write(cells + 2, 0);
        dta_here.write(cells + 3, 0);
        dta_here.write(cells + 4, 0);
        dta_here.write(cells + 5, 0);
        dta_here.write(cells + 6, 0);
        dta_here.write(cells + 7, 0);
    }

    apply {
        if (readout.record == REPORTER_STATE) {
            read_state();
        } else if (readout.record == (REPORTER_STATE | WRITE)) {
            write_state();
        } else if (readout.record == (REPORTER_WINDOW | WRITE)) {
            clear_cells();
        }
    }
}

struct arrival_t {
    bit<8> reporter;  // its index; UNTRACKED: nobody minds its numbers
    bit<1> is_late;   // what came later was here before
    bit<1> is_anew;
    bit<1> is_nacked;
    @field_list(NACK_FIELDS)
    bit<32> missing;  // the first one that is missing; of the prototype the one before
    @field_list(NACK_FIELDS)
    bit<32> count;    // how many are missing from there on
}

/* Who has sent it, and what its number says. Nothing changes yet. */
control CheckSequence(in headers_t hdr, inout arrival_t arrival, inout plan_t plan) {
    bit<16> reporter = 0;  // the prototype's have no number

    action track(bit<8> index) {
        arrival.reporter = index;
    }

    table reporters {
        key = {
            hdr.ipv4.src_addr: exact;
            reporter: exact @name("reporter");
        }
        actions = { track; NoAction; }
        default_action = NoAction();
        size = DTA_REPORTERS;
    }

    /* Ahead of what is expected: those between are missing. Behind: one of those that were, or one
     * that came twice. Further away than the window: numbers have begun anew. */
    action check() {
        bit<32> expected;
        bit<33> here;
        dta_expected.read(expected, (bit<32>)arrival.reporter);
        dta_here.read(here, HERE(arrival.reporter, hdr.dta.sequence));
        bit<32> ahead = hdr.dta.sequence - expected;
        bit<32> behind = expected - hdr.dta.sequence;
        if (ahead < WINDOW) {
            arrival.missing = expected;
            arrival.count = ahead;
        } else if (behind > WINDOW) {
            arrival.is_anew = 1;
        } else {
            arrival.is_late = 1;
            if (here == IS_HERE ++ hdr.dta.sequence) {
                plan.problem = DUPLICATE;
            }
        }
    }

#if DTA_NACK_TRACKING
    /* A reporter of the prototype sends again all that follows what is missing: until that comes,
     * nothing is taken. So much comes twice, and to ask for what follows each of those would have
     * ever more of it sent: up to a quarter of all numbers behind, it was here before. The first one
     * may have any number. */
    action check_prototype() {
        bit<9> last;
        dta_last.read(last, (bit<32>)arrival.reporter);
        bit<8> ahead = hdr.prototype.sequence - last[7:0];
        arrival.missing = (bit<32>)last[7:0];
        if (last != 0 && (ahead == 0 || ahead >= 192)) {
            plan.problem = DUPLICATE;
        } else if (last != 0 && ahead != 1) {
            plan.problem = OUT_OF_ORDER;
        }
    }
#endif

    apply {
        if (hdr.dta.isValid()) {
            reporter = hdr.dta.reporter;
        }
        if (!hdr.dta.isValid() || hdr.dta.version == DTA_VERSION) {
            reporters.apply();
        }
        if (arrival.reporter != UNTRACKED) {
            if (hdr.dta.isValid()) {
                check();
            }
#if DTA_NACK_TRACKING
            if (hdr.prototype.isValid() && hdr.prototype.retransmittable == 1) {
                check_prototype();
            }
#endif
        }
    }
}

/* Remembers what has come, and what the reporter is to send again: what is missing, and what the
 * rate has refused. */
control MarkSequence(in headers_t hdr, inout arrival_t arrival, in plan_t plan) {
    action mark() {
        bit<32> missing;
        dta_missing.read(missing, (bit<32>)arrival.reporter);
        bit<1> is_to_return =
            plan.problem == TOO_FAST && hdr.dta.retransmittable == 1 ? 1w1 : 0;
        if (arrival.is_late == 0) {
            dta_expected.write((bit<32>)arrival.reporter, hdr.dta.sequence + 1);
            missing = missing + arrival.count + (bit<32>)is_to_return;
        } else if (plan.problem != TOO_FAST && missing != 0) {
            missing = missing - 1;
        }
        if (is_to_return == 1) {
            arrival.missing = arrival.count == 0 ? hdr.dta.sequence : arrival.missing;
            arrival.count = arrival.count + 1;
        } else {
            dta_here.write(HERE(arrival.reporter, hdr.dta.sequence), IS_HERE ++ hdr.dta.sequence);
        }
        dta_missing.write((bit<32>)arrival.reporter, missing);
        arrival.is_nacked = arrival.count != 0 ? 1w1 : 0;
    }

#if DTA_NACK_TRACKING
    action mark_prototype() {
        if (plan.problem == OUT_OF_ORDER || plan.problem == TOO_FAST) {
            arrival.is_nacked = 1;
        } else {
            dta_last.write((bit<32>)arrival.reporter, IS_HERE ++ hdr.prototype.sequence);
        }
    }
#endif

    apply {
        if (arrival.reporter != UNTRACKED && plan.problem != DUPLICATE) {
            if (hdr.dta.isValid()) {
                mark();
                if (arrival.is_late == 1 && plan.problem != TOO_FAST) {
                    dta_events.count(DTA_EVENT(arrival.reporter, RECOVERED));
                }
                if (arrival.is_anew == 1) {
                    dta_events.count(DTA_EVENT(arrival.reporter, BEGUN_ANEW));
                }
            }
#if DTA_NACK_TRACKING
            if (hdr.prototype.isValid() && hdr.prototype.retransmittable == 1) {
                mark_prototype();
            }
#endif
        }
    }
}

#endif
