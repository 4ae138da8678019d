/* Sessions by number. A session is the state that a switch shares with a queue pair of a collector.
 *
 * Each record has a PSN, and a slot in a ring of the collector's memory. Ingress (responses) and
 * egress (records) share this state, so every change updates all of it in one action. */
#ifndef TELEMARK_ROCE_SESSION_P4
#define TELEMARK_ROCE_SESSION_P4

#include "headers.p4"
#include "../include/readout.p4"

#define ROCE_SESSIONS 256  // a session number has eight bits, so no index is out of bounds

// Session numbers start at 1. The clone session with the same number leads to the collector.
const bit<8> NO_SESSION = 0;

register<bit<24>>(ROCE_SESSIONS) roce_psn;         // PSN of the next record
register<bit<32>>(ROCE_SESSIONS) roce_slot;        // slot of the next record
register<bit<32>>(ROCE_SESSIONS) roce_unanswered;  // records since the last response or probe
register<bit<1>>(ROCE_SESSIONS) roce_probing;      // 1 while a probe waits in a queue
register<bit<32>>(ROCE_SESSIONS) roce_lost;        // records that were sent but not written
// IS_KNOWN and a PSN, or 0:
register<bit<32>>(ROCE_SESSIONS) roce_acked;    // PSN in the latest ACK
register<bit<32>>(ROCE_SESSIONS) roce_resumed;  // PSN at which the session last resumed

const bit<8> IS_KNOWN = 1;

// Counters per session, by kind.
const bit<4> SENT = 0;         // records sent
const bit<4> ACKED = 1;        // responses that acknowledge records
const bit<4> NAKED = 2;        // responses with the expected PSN
const bit<4> NOT_READY = 3;    // the collector had no receive request for an immediate
const bit<4> REFUSED = 4;      // errors after which the collector accepts no more requests
const bit<4> RESUMED = 5;      // times that the session resumed with the expected PSN
const bit<4> PROBED = 6;
const bit<4> DAMAGED = 7;      // responses with a wrong iCRC
const bit<4> OUT_OF_REGION = 8;  // records not sent because they are outside of the region

counter(ROCE_SESSIONS * 16, CounterType.packets) roce_events;

#define ROCE_EVENT(session, kind) ((bit<32>)(session ++ kind))

// Readout record numbers; index: the session.
const bit<16> ROCE_SESSION = 1;  // PSN, slot, lost and unanswered records; a write restarts it
const bit<16> ROCE_PSN = 5;      // only the PSN; cannot be read

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

    /* Discards responses of an earlier queue pair. */
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
