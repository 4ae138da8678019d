/* What is to come of a report: ingress plans it, and counts what comes of it. */
#ifndef TELEMARK_DTA_PLAN_P4
#define TELEMARK_DTA_PLAN_P4

#include "hashes.p4"
#include "packet.p4"

const bit<8> PROBE_FIELDS = 1;  // metadata of a clone that becomes a probe
const bit<8> NACK_FIELDS = 2;   // of one that becomes a NACK

// What comes of reports, counted for each reporter. The first ones are why nothing is written.
const bit<4> NO_PROBLEM = 0;
const bit<4> MALFORMED = 1;       // cut, of a wrong length, or of an unknown version or opcode
const bit<4> OUT_OF_RANGE = 2;    // redundancy, hop, ...
const bit<4> NOT_CONFIGURED = 3;  // no region takes such reports
const bit<4> DUPLICATE = 4;       // was here before
@noWarn("unused") const bit<4> OUT_OF_ORDER = 5;  // of the prototype: what is before is missing
const bit<4> TOO_FAST = 6;        // its session's rate is used up
// and these are besides:
const bit<4> COLUMN_TWICE = 7;    // of this reporter, which is in the sum already
const bit<4> TRANSLATED = 8;
const bit<4> RECOVERED = 9;       // was missing, and came after all
const bit<4> NACKED = 10;         // NACKs that were sent
const bit<4> BEGUN_ANEW = 11;     // sequence numbers that have nothing to do with those before

#define DTA_REPORTERS 256  // as their index has eight bits, none is out of bounds
const bit<8> UNTRACKED = 0;

counter(DTA_REPORTERS * 16, CounterType.packets) dta_events;

#define DTA_EVENT(reporter, kind) ((bit<32>)(reporter ++ kind))

const bit<8> ONE_REQUEST = 16;  // what it costs

struct plan_t {
    @field_list(PROBE_FIELDS)
    bit<8> session;  // where it is written to; NO_SESSION: nowhere
    bit<4> problem;
    bit<8> service;  // to which of the switch's addresses it came
    bit<4> copies;   // requests that it becomes at once, 0 to 8
    bit<8> cost;     // in sixteenths of a request: what it takes of its session's rate
}

/* Which of `count` sessions, from `first` on, has a key. */
action choose_session(inout plan_t plan, in bit<128> key, in bit<8> first, in bit<8> count) {
    plan.session = first;
    if (count > 1) {
        plan.session = first + session_of(key, count);
    }
}

/* For each copy a request: all of them in one session. */
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
