/* Plan of a report in ingress, and counters of the outcomes. */
#ifndef TELEMARK_DTA_PLAN_P4
#define TELEMARK_DTA_PLAN_P4

#include "hashes.p4"
#include "packet.p4"

const bit<8> PROBE_FIELDS = 1;  // metadata of a clone that becomes a probe
const bit<8> NACK_FIELDS = 2;   // metadata of a clone that becomes a NACK

// Outcomes of reports. They are counted per reporter. The first outcomes are reasons for which a
// report is rejected.
const bit<4> NO_PROBLEM = 0;
const bit<4> MALFORMED = 1;       // truncated, wrong length, or unknown version or opcode
const bit<4> OUT_OF_RANGE = 2;    // a field is out of range, e.g. redundancy or hop
const bit<4> NOT_CONFIGURED = 3;  // the collector's memory has no store for such reports
const bit<4> DUPLICATE = 4;       // received before
// earlier reports are missing; only for the prototype
@noWarn("unused") const bit<4> OUT_OF_ORDER = 5;
const bit<4> TOO_FAST = 6;        // the report exceeds the rate of its session
// Additional events:
const bit<4> COLUMN_TWICE = 7;    // the sum already contains this column from this reporter
const bit<4> TRANSLATED = 8;
const bit<4> RECOVERED = 9;       // the report arrived after it was counted as missing
const bit<4> NACKED = 10;         // NACKs sent
const bit<4> RESTARTED = 11;     // the sequence numbers of the reporter restarted

#define DTA_REPORTERS 256  // the index has eight bits, so it cannot be out of bounds
const bit<8> UNTRACKED = 0;

counter(DTA_REPORTERS * 16, CounterType.packets) dta_events;

#define DTA_EVENT(reporter, kind) ((bit<32>)(reporter ++ kind))

const bit<8> ONE_REQUEST = 16;  // cost of one request

struct plan_t {
    @field_list(PROBE_FIELDS)
    bit<8> session;  // session that writes the report; NO_SESSION if there is none
    bit<4> problem;
    bit<8> service;  // service; the report was sent to the address of this service
    bit<4> copies;   // number of requests, 0 to 8
    bit<8> cost;     // cost of the report for the rate of its session, in 1/16 of a request
}

/* Selects one of `count` sessions by a hash of the key. The first of these sessions has the number
 * `first`. */
action choose_session(inout plan_t plan, in bit<128> key, in bit<8> first, in bit<8> count) {
    plan.session = first;
    if (count > 1) {
        plan.session = first + session_of(key, count);
    }
}

/* Plans one request per copy. All these requests use the same session. */
control PlanCopies(inout plan_t plan, in bit<8> redundancy) {
    apply {
        if (redundancy == 0 || redundancy > 8) {
            plan.problem = OUT_OF_RANGE;
        } else {
            plan.copies = redundancy[3:0];
            plan.cost = redundancy << 4;
        }
    }
}

#endif
