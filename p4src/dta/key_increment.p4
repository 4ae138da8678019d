/* Key-Increment: increments the counters of a key. Each copy has one counter, in its own row. */
#ifndef TELEMARK_DTA_KEY_INCREMENT_P4
#define TELEMARK_DTA_KEY_INCREMENT_P4

#include "plan.p4"
#include "../roce/transport.p4"

/* Chooses the counters, in ingress. */
control PlanKeyIncrement(
    in key_increment_t report, inout plan_t plan, inout bit<32> counter_mask) {
    PlanCopies() plan_copies;

    action add_to_key(bit<8> first_session, bit<8> sessions, bit<32> slot_mask) {
        choose_session(plan, report.key, first_session, sessions);
        counter_mask = slot_mask;
    }

    table counter_stores {
        key = { plan.service: exact @name("service"); }
        actions = { add_to_key; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        plan_copies.apply(plan, report.redundancy);
        if (!counter_stores.apply().hit) {
            plan.problem = NOT_CONFIGURED;
        }
    }
}

/* Creates the RDMA request of a copy; in egress. Each copy has its own row of counters. */
control RequestKeyIncrement(
    in key_increment_t report, in bit<32> copy, in bit<32> slot_mask, inout request_t request) {
    apply {
        bit<64> slot = (bit<64>)(copy_hash(report.key, copy) & slot_mask);
        bit<64> row = (bit<64>)copy * ((bit<64>)slot_mask + 1);
        request.offset = (row + slot) << 3;
        request.addend = report.addend;
    }
}

#endif
