/* Responses of a collector (ACKs and NAKs), and recovery after lost records. */
#ifndef TELEMARK_ROCE_ANSWERS_P4
#define TELEMARK_ROCE_ANSWERS_P4

#include "icrc.p4"
#include "session.p4"

/* A switch stores no copies of records, so it does not send lost records again. After a lost
 * record, the collector drops all later records. Therefore, the switch must soon continue with the
 * PSN that the collector expects. The switch learns this PSN in three ways:
 *
 * - A NAK contains this PSN. A collector sends a NAK once. So a second NAK with the same PSN,
 * without an ACK in between, is late. An RNR NAK refers to the record itself, so it is never late.
 * - An ACK for records that were not yet sent contains this PSN. In this case, PSNs were set back
 * too far.
 * - Two ACKs with the same PSN contain this PSN. The second ACK is the response to a probe
 * (write.p4). A record was sent between the two ACKs, but it was not written. So a session recovers
 * even if its NAK was lost.
 *
 * Slots follow PSNs, so no slot of the ring is skipped. */
control ProcessResponse(in headers_t hdr, in bit<8> session, in bit<32> slots) {
    bit<1> is_resumed = 0;
    bit<24> expected = 0;
    bit<1> is_nak = 0;
    bit<1> is_ready = 1;  // 0: RNR NAK (receiver not ready)
    bit<32> acked = 0;  // IS_KNOWN and the PSN of the ACK, to detect two ACKs with the same PSN

    action process() {
        bit<32> index = (bit<32>)session;
        bit<24> psn;
        bit<32> slot;
        bit<32> lost;
        bit<32> acked_before;
        bit<32> resumed;
        roce_psn.read(psn, index);
        roce_slot.read(slot, index);
        roce_lost.read(lost, index);
        roce_acked.read(acked_before, index);
        roce_resumed.read(resumed, index);
        // number of records; from 2^23 on, `expected` is ahead of psn
        bit<24> behind = psn - expected;
        bit<32> lack = behind[23:23] == 1 ? 8w0xFF ++ behind : 8w0 ++ behind;
        bit<32> goal = IS_KNOWN ++ expected;
        bool is_late = is_nak == 1 && is_ready == 1 && resumed == goal;
        bool is_stuck = is_nak == 1 || (acked != 0 && acked == acked_before);
        if (behind != 0 && !is_late && (behind[23:23] == 1 || is_stuck)) {
            is_resumed = 1;
            psn = expected;
            lost = lost + lack;
            slot = slot - lack;
            // The slot wraps around at both ends of the ring. AllocateNumber handles a difference
            // of more than one ring.
            if (slot >= slots) {
                slot = behind[23:23] == 1 ? slot - slots : slot + slots;
            }
            acked = 0;
            resumed = goal;
        } else if (is_nak == 0 && resumed != goal) {
            resumed = 0;
        }
        roce_psn.write(index, psn);
        roce_slot.write(index, slot);
        roce_lost.write(index, lost);
        roce_acked.write(index, acked);
        roce_resumed.write(index, resumed);
        roce_unanswered.write(index, 0);
    }

    apply {
        bit<2> what = hdr.aeth.syndrome[6:5];
        if (what == SYNDROME_ACK) {
            expected = hdr.bth.psn + 1;
            if (hdr.bth.opcode == ACKNOWLEDGE) {
                acked = IS_KNOWN ++ hdr.bth.psn;
            }
            roce_events.count(ROCE_EVENT(session, ACKED));
            process();
        } else if (what == SYNDROME_NOT_READY || hdr.aeth.syndrome == NAK_SEQUENCE) {
            expected = hdr.bth.psn;
            is_nak = 1;
            if (what == SYNDROME_NOT_READY) {
                is_ready = 0;
                roce_events.count(ROCE_EVENT(session, NOT_READY));
            } else {
                roce_events.count(ROCE_EVENT(session, NAKED));
            }
            process();
        } else {
            roce_events.count(ROCE_EVENT(session, REFUSED));
        }
        if (is_resumed == 1) {
            roce_events.count(ROCE_EVENT(session, RESUMED));
        }
    }
}

/* Consumes responses for sessions of this switch. Responses for other switches are forwarded. */
control Answers(
    in headers_t hdr, inout bit<8> session, inout standard_metadata_t standard_metadata) {
    Icrc() check;
    ProcessResponse() process_response;
    bit<32> slots = 0;
    bit<8> version = 2;
    bit<128> src_gid = 0;
    bit<128> dst_gid = 0;

    action answer(bit<8> session_number, bit<32> slots_of_ring) {
        session = session_number;
        slots = slots_of_ring;
        mark_to_drop(standard_metadata);
    }

    /* A GID is an IPv6 address. An IPv4 address is mapped to ::ffff:a.b.c.d (A17.4.1). */
    table answers {
        key = {
            version: exact @name("version");
            hdr.bth.dst_qp: exact;
            src_gid: exact @name("src_gid");
            dst_gid: exact @name("dst_gid");
        }
        actions = { answer; NoAction; }
        default_action = NoAction();
        size = ROCE_SESSIONS;
    }

    apply {
        if (hdr.icrc.isValid()) {
            if (hdr.grh.isValid()) {
                version = 1;
                src_gid = hdr.grh.src_gid;
                dst_gid = hdr.grh.dst_gid;
            } else if (hdr.ipv6.isValid()) {
                src_gid = hdr.ipv6.src_addr;
                dst_gid = hdr.ipv6.dst_addr;
            } else {
                src_gid = IPV4_MAPPED | (bit<128>)hdr.ipv4.src_addr;
                dst_gid = IPV4_MAPPED | (bit<128>)hdr.ipv4.dst_addr;
            }
            answers.apply();
        }
        if (session != NO_SESSION) {
            bit<32> icrc = 0;
            check.apply(hdr, icrc);
            if (icrc == hdr.icrc.value) {
                process_response.apply(hdr, session, slots);
            } else {
                roce_events.count(ROCE_EVENT(session, DAMAGED));
            }
        }
    }
}

#endif
