/* Limits the request rate towards the collector of a session. Requests above the limit are
 * rejected.
 *
 * It uses the generic cell rate algorithm (ITU-T I.371, annex A) in the form of virtual scheduling.
 * Each request moves the due time of the next request. A request may arrive before its due time,
 * but only by a limited time. */
#ifndef TELEMARK_DTA_RATE_P4
#define TELEMARK_DTA_RATE_P4

#include "../roce/session.p4"
#include "plan.p4"

register<bit<64>>(ROCE_SESSIONS) dta_due_ns;  // due time of the next request, on the switch's clock

control LimitRate(inout plan_t plan, in bit<48> now_us) {
    /* Sets the limits: one request per `interval_ns`, and a burst of `burst_ns` after a pause. */
    action limit(bit<32> interval_ns, bit<32> burst_ns) {
        bit<64> due_ns;
        dta_due_ns.read(due_ns, (bit<32>)plan.session);
        bit<64> now_ns = (bit<64>)now_us * 1000;
        if (due_ns > now_ns + (bit<64>)burst_ns) {
            plan.problem = TOO_FAST;
        } else {
            due_ns = due_ns < now_ns ? now_ns : due_ns;
            due_ns = due_ns + (((bit<64>)interval_ns * (bit<64>)plan.cost) >> 4);
        }
        dta_due_ns.write((bit<32>)plan.session, due_ns);
    }

    table rates {
        key = { plan.session: exact @name("session"); }
        actions = { limit; NoAction; }
        default_action = NoAction();
        size = ROCE_SESSIONS;
    }

    apply {
        rates.apply();
    }
}

#endif
