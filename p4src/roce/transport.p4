/* Requests to the queue pair of a collector, from BTH to the payload: WRITE, FETCH ADD and
 * probes. */
#ifndef TELEMARK_ROCE_TRANSPORT_P4
#define TELEMARK_ROCE_TRANSPORT_P4

#include "session.p4"

// distance from the PSN of a probe to the PSN of the next record: 1/4 of all PSNs
const bit<24> PROBE_DISTANCE = 0x400000;

struct queue_pair_t {
    bit<8> opcode;      // FETCH ADD or WRITE ONLY; 0 if the session does not exist
    bit<24> number;
    bit<32> rkey;
    bit<64> base;       // address of the region
    bit<64> length;
    bit<24> ack_mask;   // an ACK is requested if PSN & ack_mask == ack_mask
    bit<32> patience;   // number of unanswered requests before a probe; 0 means no probes
}

struct request_t {
    bit<64> offset;         // offset in the region, in bytes
    bit<16> payload_bytes;  // payload of WRITE
    bit<1> has_immediate;
    bit<32> immediate;
    bit<64> addend;         // addend of FETCH ADD
}

struct number_t {
    bit<24> psn;
    bit<32> slot;
    bit<1> wants_probe;
    bit<1> is_probing;  // a probe follows
}

action put_bth(inout bth_t bth, in bit<8> opcode, in bit<24> queue_pair, in bit<24> psn) {
    bth.setValid();
    bth.opcode = opcode;
    bth.solicited = 0;
    bth.migrated = 1;
    bth.pad_count = 0;
    bth.version = 0;
    bth.partition_key = 0xFFFF;
    bth.reserved = 0;
    bth.dst_qp = queue_pair;
    bth.ack_request = 1;
    bth.reserved_too = 0;
    bth.psn = psn;
}

/* Allocates the next PSN and, for a ring, the next slot.
 *
 * A probe is a clone, so it waits in the queue behind other records. These records do not request
 * an ACK. If one did, its ACK and the ACK of the probe would be equal. Two equal ACKs indicate that
 * no record was written (answers.p4). */
control AllocateNumber(
    in bit<8> session, in bit<32> patience, in bit<32> slots, inout number_t number) {
    action allocate() {
        bit<32> index = (bit<32>)session;
        bit<32> unanswered;
        roce_psn.read(number.psn, index);
        roce_slot.read(number.slot, index);
        roce_unanswered.read(unanswered, index);
        roce_probing.read(number.is_probing, index);
        // Either more records were lost than the ring has slots (answers.p4), or the ring has
        // become smaller.
        if (number.slot >= slots) {
            number.slot = 0;
        }
        unanswered = unanswered + 1;
        number.wants_probe = 0;
        if (patience != 0 && unanswered >= patience) {
            number.wants_probe = 1;
            number.is_probing = 1;
            unanswered = 0;
        }
        roce_psn.write(index, number.psn + 1);
        roce_slot.write(index, number.slot + 1 >= slots ? 0 : number.slot + 1);
        roce_unanswered.write(index, unanswered);
        roce_probing.write(index, number.is_probing);
    }

    apply {
        allocate();
        roce_events.count(ROCE_EVENT(session, SENT));
    }
}

/* `bytes` is the length from BTH to iCRC. */
control PutRequest(
    inout headers_t hdr, in queue_pair_t queue_pair, in request_t request, in number_t number,
    inout bit<16> bytes) {
    action put_addition() {
        hdr.atomic.setValid();
        hdr.atomic.address = queue_pair.base + request.offset;
        hdr.atomic.rkey = queue_pair.rkey;
        hdr.atomic.addend = request.addend;
        hdr.atomic.compare = 0;
        bytes = BTH_ICRC_BYTES + ATOMIC_BYTES;
    }

    action put_write() {
        hdr.bth.ack_request =
            (number.psn & queue_pair.ack_mask) == queue_pair.ack_mask
            && queue_pair.opcode == WRITE_ONLY && number.is_probing == 0 ? 1w1 : 0;
        hdr.reth.setValid();
        hdr.reth.address = queue_pair.base + request.offset;
        hdr.reth.rkey = queue_pair.rkey;
        hdr.reth.length = (bit<32>)request.payload_bytes;
        bytes = BTH_ICRC_BYTES + RETH_BYTES + request.payload_bytes;
    }

    action put_immediate() {
        hdr.bth.opcode = hdr.bth.opcode | 1;  // WRITE ONLY WITH IMMEDIATE
        hdr.immediate.setValid();
        hdr.immediate.value = request.immediate;
        bytes = bytes + IMMEDIATE_BYTES;
    }

    apply {
        put_bth(hdr.bth, queue_pair.opcode, queue_pair.number, number.psn);
        if (queue_pair.opcode == FETCH_ADD) {
            put_addition();
        } else {
            put_write();
            if (request.has_immediate == 1) {
                put_immediate();
            }
        }
    }
}

/* Asks the collector for the expected PSN. The request does not change memory, because its PSN is
 * old and it has no data. If no record was sent since the last probe, no probe is sent, because
 * both ACKs would be equal. */
control PutProbe(
    inout headers_t hdr, in bit<8> session, in queue_pair_t queue_pair, inout bit<16> bytes) {
    bit<1> is_probing = 0;

    action take_probe() {
        roce_probing.read(is_probing, (bit<32>)session);
        roce_probing.write((bit<32>)session, 0);
    }

    action put_probe() {
        bit<24> psn;
        roce_psn.read(psn, (bit<32>)session);
        put_bth(hdr.bth, WRITE_ONLY, queue_pair.number, psn - PROBE_DISTANCE);
        hdr.reth.setValid();
        hdr.reth.address = queue_pair.base;
        hdr.reth.rkey = queue_pair.rkey;
        hdr.reth.length = 0;
        bytes = BTH_ICRC_BYTES + RETH_BYTES;
    }

    apply {
        take_probe();
        if (is_probing == 1) {
            put_probe();
            roce_events.count(ROCE_EVENT(session, PROBED));
        }
    }
}

#endif
