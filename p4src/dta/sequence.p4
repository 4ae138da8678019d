/* Detects missing reports by sequence numbers. */
#ifndef TELEMARK_DTA_SEQUENCE_P4
#define TELEMARK_DTA_SEQUENCE_P4

#include "../include/readout.p4"
#include "plan.p4"

// Number of sequence numbers that are tracked per reporter; a power of two.
#define DTA_WINDOW 1024
const bit<32> WINDOW = DTA_WINDOW;

register<bit<32>>(DTA_REPORTERS) dta_expected;  // sequence number that is expected next
register<bit<32>>(DTA_REPORTERS) dta_missing;   // number of reports that are missing
// The index consists of the reporter and the low bits of the sequence number. The value is
// IS_RECEIVED and the last number, or 0.
register<bit<33>>(DTA_REPORTERS * DTA_WINDOW) dta_received;
#if DTA_NACK_TRACKING
// for the prototype: IS_RECEIVED and the last number, or 0
register<bit<9>>(DTA_REPORTERS) dta_last;
#endif

const bit<1> IS_RECEIVED = 1;

#define RECEIVED_CELL(reporter, sequence) \
    (((bit<32>)(reporter) * WINDOW) | ((sequence) & (WINDOW - 1)))

// Readout record numbers.
const bit<16> REPORTER_STATE = 6;   // index: reporter; values: next number, missing reports
// index: eight cells of dta_received; a write clears the cells; they cannot be read
const bit<16> REPORTER_WINDOW = 7;

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
        dta_received.write(cells, 0);
        dta_received.write(cells + 1, 0);
        dta_received.write(cells + 2, 0);
        dta_received.write(cells + 3, 0);
        dta_received.write(cells + 4, 0);
        dta_received.write(cells + 5, 0);
        dta_received.write(cells + 6, 0);
        dta_received.write(cells + 7, 0);
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
    bit<8> reporter;  // index of the reporter; UNTRACKED means that sequence numbers are ignored
    bit<1> is_late;   // a report with a higher number was received before
    bit<1> is_anew;
    bit<1> is_nacked;
    @field_list(NACK_FIELDS)
    bit<32> missing;  // first missing number; prototype: the last number before the gap
    @field_list(NACK_FIELDS)
    bit<32> count;    // number of reports that are missing
}

/* Identifies the reporter, and checks the sequence number. It does not change state. */
control CheckSequence(in headers_t hdr, inout arrival_t arrival, inout plan_t plan) {
    bit<16> reporter = 0;  // reporters of the prototype have no number

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

    /* Checks a sequence number. If the number is above the expected number, the reports in between
     * are missing. If the number is below the expected number, either the report was counted as
     * missing before, or it is a duplicate. If the number is outside of the window, the reporter
     * has restarted its numbers. */
    action check() {
        bit<32> expected;
        bit<33> here;
        dta_expected.read(expected, (bit<32>)arrival.reporter);
        dta_received.read(here, RECEIVED_CELL(arrival.reporter, hdr.dta.sequence));
        bit<32> ahead = hdr.dta.sequence - expected;
        bit<32> behind = expected - hdr.dta.sequence;
        if (ahead < WINDOW) {
            arrival.missing = expected;
            arrival.count = ahead;
        } else if (behind > WINDOW) {
            arrival.is_anew = 1;
        } else {
            arrival.is_late = 1;
            if (here == IS_RECEIVED ++ hdr.dta.sequence) {
                plan.problem = DUPLICATE;
            }
        }
    }

#if DTA_NACK_TRACKING
    /* After a loss, a reporter of the prototype sends the missing report and all later reports
     * again. Until the missing report arrives, no other report is accepted. Therefore, many reports
     * arrive twice. If each of these caused a NACK, more and more reports would be sent again. So a
     * number counts as a duplicate if it equals the last accepted number, or is at most a quarter
     * of the number space below it. The first report may have any number. */
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

/* Records that the report was received. Determines which reports to request: missing reports, and
 * reports that the rate limit has rejected. */
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
            dta_received.write(
                RECEIVED_CELL(arrival.reporter, hdr.dta.sequence), IS_RECEIVED ++ hdr.dta.sequence);
        }
        dta_missing.write((bit<32>)arrival.reporter, missing);
        arrival.is_nacked = arrival.count != 0 ? 1w1 : 0;
    }

#if DTA_NACK_TRACKING
    action mark_prototype() {
        if (plan.problem == OUT_OF_ORDER || plan.problem == TOO_FAST) {
            arrival.is_nacked = 1;
        } else {
            dta_last.write((bit<32>)arrival.reporter, IS_RECEIVED ++ hdr.prototype.sequence);
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
                    dta_events.count(DTA_EVENT(arrival.reporter, RESTARTED));
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
