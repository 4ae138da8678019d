/* Sessions: the state that a switch shares with the queue pairs of collectors. Each session has a
 * number, and belongs to one queue pair.
 *
 * Each record has a PSN, and a slot in a ring in the memory of the collector. Ingress (responses)
 * and egress (records) use the same state. So every change updates all parts of this state in one
 * action. */
#ifndef TELEMARK_ROCE_SESSION_P4
#define TELEMARK_ROCE_SESSION_P4

#include "headers.p4"
#include "../include/readout.p4"

#define ROCE_SESSIONS 256  // a session number has eight bits, so no index is out of bounds

// Numbers of sessions start at 1. The clone session with the same number leads to the collector of
// the session.
const bit<8> NO_SESSION = 0;

register<bit<24>>(ROCE_SESSIONS) roce_psn;         // PSN of the next record
register<bit<32>>(ROCE_SESSIONS) roce_slot;        // slot of the next record
// number of records since the last response or probe
register<bit<32>>(ROCE_SESSIONS) roce_unanswered;
register<bit<1>>(ROCE_SESSIONS) roce_probing;      // 1 while a probe is waiting in a queue
// number of records that were sent, but not written
register<bit<32>>(ROCE_SESSIONS) roce_lost;
// IS_KNOWN and a PSN, or 0:
register<bit<32>>(ROCE_SESSIONS) roce_acked;    // PSN of the latest ACK
register<bit<32>>(ROCE_SESSIONS) roce_resumed;  // PSN with which the session last resumed

const bit<8> IS_KNOWN = 1;

// Counters per session and kind.
const bit<4> SENT = 0;         // records sent
const bit<4> ACKED = 1;        // responses that acknowledge records
const bit<4> NAKED = 2;        // responses that contain the expected PSN
const bit<4> NOT_READY = 3;    // the collector had no receive request for the immediate value
const bit<4> REFUSED = 4;      // errors after which the collector accepts no more requests
const bit<4> RESUMED = 5;      // number of times that the session resumed with the expected PSN
const bit<4> PROBED = 6;
const bit<4> DAMAGED = 7;      // responses with a wrong iCRC
// records that were not sent, because they are outside of the region
const bit<4> OUT_OF_REGION = 8;

counter(ROCE_SESSIONS * 16, CounterType.packets) roce_events;

#define ROCE_EVENT(session, kind) ((bit<32>)(session ++ kind))

// Readout record numbers. The index is the number of the session.
// PSN, slot, lost records and unanswered records; a write restarts the session
const bit<16> ROCE_SESSION = 1;
const bit<16> ROCE_PSN = 5;      // only the PSN; it cannot be read

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

    /* Also resets the registers that responses to an earlier queue pair have set. */
    action restart_session() {
        roce_psn.write(session, (bit<24>)readout.value_0);
        roce_slot.write(session, (bit<32>)readout.value_1);
        roce_lost.write(session, (bit<32>)readout.value_2);
        roce_unanswered.write(session, (bit<32>)readout.value_3);
        roce_probing.write(session, 0);
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
