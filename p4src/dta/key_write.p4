/* Key-Write: stores the data that were last reported for a key, in one slot per copy. */
#ifndef TELEMARK_DTA_KEY_WRITE_P4
#define TELEMARK_DTA_KEY_WRITE_P4

#include "plan.p4"
#include "../roce/transport.p4"

struct key_write_store_t {
    bit<32> slot_mask;      // number of slots (a power of two) minus 1
    bit<32> checksum_mask;  // mask of the bits of the checksum
}

/* Finds the store in the collector's memory for this number of words; in ingress. */
control PlanKeyWrite(in key_write_t report, inout plan_t plan, inout key_write_store_t store) {
    PlanCopies() plan_copies;

    action write_key(
        bit<8> first_session, bit<8> sessions, bit<32> slot_mask, bit<32> checksum_mask) {
        choose_session(plan, report.key, first_session, sessions);
        store.slot_mask = slot_mask;
        store.checksum_mask = checksum_mask;
    }

    table key_write_stores {
        key = {
            plan.service: exact @name("service");
            report.words: exact @name("words");
        }
        actions = { write_key; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        plan_copies.apply(plan, report.redundancy);
        if (!key_write_stores.apply().hit) {
            plan.problem = NOT_CONFIGURED;
        }
    }
}

/* Creates the RDMA request of a copy; in egress. A slot consists of the checksum (never 0), and the
 * data. The immediate value is the number of the slot. */
control RequestKeyWrite(
    inout headers_t hdr, in bit<32> copy, in key_write_store_t store, inout request_t request) {
    apply {
        bit<32> slot = copy_hash(hdr.key_write.key, copy) & store.slot_mask;
        bit<32> checksum = 0x80000000
            | (murmur(hdr.key_write.key, CHECKSUM_SEED) & store.checksum_mask);
        if (hdr.data_1.isValid()) {
            hdr.words_2.setValid();
            hdr.words_2.words = checksum ++ hdr.data_1.words;
            request.payload_bytes = 8;
        } else if (hdr.data_3.isValid()) {
            hdr.words_4.setValid();
            hdr.words_4.words = checksum ++ hdr.data_3.words;
            request.payload_bytes = 16;
        } else {
            hdr.words_8.setValid();
            hdr.words_8.words = checksum ++ hdr.data_7.words;
            request.payload_bytes = 32;
        }
        request.offset = (bit<64>)slot * (bit<64>)request.payload_bytes;
        request.immediate = slot;
    }
}

#endif
