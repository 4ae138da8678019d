/* A session: what a switch and a queue pair of a collector have in common, by number.
 *
 * Records have PSNs, and slots in a ring of the collector's memory. Whoever changes one of them
 * changes all of them, in one action: so ingress, which hears answers, and egress, which sends, may
 * share them. */
#ifndef TELEMARK_ROCE_SESSION_P4
#define TELEMARK_ROCE_SESSION_P4

#include "headers.p4"
#include "../include/readout.p4"

#define ROCE_SESSIONS 256  // as a session number has eight bits, no index is out of bounds

// The first session has number 1, and a clone session of this number leads to its collector.
const bit<8> NO_SESSION = 0;

register<bit<24>>(ROCE_SESSIONS) roce_psn;         // of the next record
register<bit<32>>(ROCE_SESSIONS) roce_slot;        // of the next record
register<bit<32>>(ROCE_SESSIONS) roce_unanswered;  // records since an answer or a probe
register<bit<32>>(ROCE_SESSIONS) roce_lost;        // records that were sent and not written
// PSNs, and IS_KNOWN before them, or 0:
register<bit<32>>(ROCE_SESSIONS) roce_acked;    // what the latest ACK said
register<bit<32>>(ROCE_SESSIONS) roce_resumed;  // where PSNs were set back to

const bit<8> IS_KNOWN = 1;

// What is counted of each session, by kind.
const bit<4> SENT = 0;         // records
const bit<4> ACKED = 1;        // answers that acknowledge something
const bit<4> NAKED = 2;        // answers that name the PSN that is expected
const bit<4> NOT_READY = 3;    // the collector had no receive request for an immediate
const bit<4> REFUSED = 4;      // errors after which the collector takes nothing more
const bit<4> RESUMED = 5;      // how often PSNs were set to what the collector expects
const bit<4> PROBED = 6;
const bit<4> DAMAGED = 7;      // answers whose iCRC is wrong
const bit<4> OUT_OF_REGION = 8;  // records that were not sent: they would lie outside

counter(ROCE_SESSIONS * 16, CounterType.packets) roce_events;

#define ROCE_EVENT(session, kind) ((bit<32>)(session ++ kind))

// Numbers of readout records; index: the session.
const bit<16> ROCE_SESSION = 1;  // PSN, slot, records lost, unanswered; to write them restarts it
const bit<16> ROCE_PSN = 5;      // the PSN alone; written only

/* Reads or writes a session's registers. */
control SessionAccess(inout readout_values_t readout) {
    bit<32> session = readout.index & (ROCE_SESSIONS - 1);

    action read_session() {
        bit<24> psn;
        bit<32> slot;
        bit<32> lost;
        bit<32> unanswered;
        roce_psn.read(psn, session);
        roce_slot.read(slot, session);
        roce_lost.read(lost, session);
        roce_unanswered.read(unanswered, session);
        readout.value_0 = (bit<64>)psn;
        readout.value_1 = (bit<64>)slot;
        readout.value_2 = (bit<64>)lost;
        readout.value_3 = (bit<64>)unanswered;
    }

    /* What was heard of an earlier queue pair says nothing of this one. */
    action restart_session() {
        roce_psn.write(session, (bit<24>)readout.value_0);
        roce_slot.write(session, (bit<32>)readout.value_1);
        roce_lost.write(session, (bit<32>)readout.value_2);
        roce_unanswered.write(session, (bit<32>)readout.value_3);
        roce_acked.write(session, 0);
        roce_resumed.write(session, 0);
    }

    action write_psn() {
        roce_psn.write(session, (bit<24>)readout.value_0);
    }

    apply {
        if (readout.record == ROCE_SESSION) {
            read_session();
        } else if (readout.record == (ROCE_SESSION | WRITE)) {
            restart_session();
        } else if (readout.record == (ROCE_PSN | WRITE)) {
            write_psn();
        }
    }
}

#endif
