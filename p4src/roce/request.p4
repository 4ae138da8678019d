/* What a collector is asked to do: WRITE of a record, FETCH ADD, or a probe; from BTH on. */
#ifndef TELEMARK_ROCE_REQUEST_P4
#define TELEMARK_ROCE_REQUEST_P4

#include "session.p4"
#include "watch.p4"

const bit<24> PROBE_DISTANCE = 0x400000;  // how old a probe's PSN is: a quarter of all

struct queue_pair_t {
    bit<8> opcode;      // of FETCH ADD, or of WRITE ONLY; 0: there is no such session
    bit<24> number;
    bit<32> rkey;
    bit<64> base;       // address of the region, and how many bytes it has
    bit<64> length;
    bit<16> stride;     // from one slot to the next
    bit<32> slots;
    bit<1> has_hop;     // a hop record is behind the flow record
    bit<24> ack_mask;   // an ACK is asked for where PSN & ack_mask == ack_mask
    bit<32> immediate_mask;  // an immediate is sent where slot & immediate_mask == immediate_mask
    bit<32> patience;   // so many records without an answer, and there is a probe; 0: never
}

struct number_t {
    bit<24> psn;
    bit<32> slot;
    bit<1> wants_probe;
}

/* The next PSN and slot. */
control TakeNumber(in bit<8> session, in queue_pair_t queue_pair, inout number_t number) {
    action take() {
        bit<32> index = (bit<32>)session;
        bit<32> unanswered;
        roce_psn.read(number.psn, index);
        roce_slot.read(number.slot, index);
        roce_unanswered.read(unanswered, index);
        // More was lost than the ring holds (answers.p4), or it has become smaller.
        if (number.slot >= queue_pair.slots) {
            number.slot = 0;
        }
        unanswered = unanswered + 1;
        number.wants_probe = 0;
        if (queue_pair.patience != 0 && unanswered >= queue_pair.patience) {
            number.wants_probe = 1;
            unanswered = 0;
        }
        roce_psn.write(index, number.psn + 1);
        roce_slot.write(index, number.slot + 1 >= queue_pair.slots ? 0 : number.slot + 1);
        roce_unanswered.write(index, unanswered);
    }

    apply {
        take();
    }
}

/* From BTH to the record, and how many bytes that is with iCRC. */
control WriteBody(
    inout headers_t hdr, in roce_t roce, in hop_t hop, in queue_pair_t queue_pair,
    inout bit<1> wants_probe, inout bit<16> bytes) {
    TakeNumber() take_number;
    FillHopRecord() fill_hop_record;
    number_t number = { 0, 0, 0 };

    action put_bth(bit<8> opcode, bit<24> psn, bit<1> ack_request) {
        hdr.bth.setValid();
        hdr.bth.opcode = opcode;
        hdr.bth.solicited = 0;
        hdr.bth.migrated = 1;
        hdr.bth.pad_count = 0;
        hdr.bth.version = 0;
        hdr.bth.partition_key = 0xFFFF;
        hdr.bth.reserved = 0;
        hdr.bth.dst_qp = queue_pair.number;
        hdr.bth.ack_request = ack_request;
        hdr.bth.reserved_too = 0;
        hdr.bth.psn = psn;
    }

    action put_reth(bit<64> address, bit<32> length) {
        hdr.reth.setValid();
        hdr.reth.address = address;
        hdr.reth.rkey = queue_pair.rkey;
        hdr.reth.length = length;
    }

    /* Asks what the collector expects, and changes nothing: its PSN is old, and it has no bytes. */
    action put_probe() {
        bit<24> psn;
        roce_psn.read(psn, (bit<32>)roce.session);
        put_bth(WRITE_ONLY, psn - PROBE_DISTANCE, 1);
        put_reth(queue_pair.base, 0);
    }

    action put_addition(bit<64> offset) {
        hdr.atomic.setValid();
        hdr.atomic.address = queue_pair.base + offset;
        hdr.atomic.rkey = queue_pair.rkey;
        hdr.atomic.addend = roce.addend;
        hdr.atomic.compare = 0;
    }

    apply {
        bit<16> record_bytes = FLOW_RECORD_BYTES;
        if (queue_pair.has_hop == 1) {
            record_bytes = record_bytes + HOP_RECORD_BYTES;
        }
        if (roce.is_probe == 1) {
            hdr.flow_record.setInvalid();
            put_probe();
            bytes = BTH_ICRC_BYTES + RETH_BYTES;
            roce_events.count(ROCE_EVENT(roce.session, PROBED));
        } else if (queue_pair.opcode == FETCH_ADD) {
            hdr.flow_record.setInvalid();
            bit<64> offset = (bit<64>)roce.cell << 3;
            if (offset + 8 <= queue_pair.length) {
                take_number.apply(roce.session, queue_pair, number);
                put_bth(FETCH_ADD, number.psn, 1);
                put_addition(offset);
                bytes = BTH_ICRC_BYTES + ATOMIC_BYTES;
            }
        } else {
            // All slots are looked at, not this one: so no register has been changed when it fails.
            bit<64> last = (bit<64>)(queue_pair.slots - 1) * (bit<64>)queue_pair.stride;
            if (queue_pair.slots != 0 && queue_pair.stride >= record_bytes
                && last + (bit<64>)record_bytes <= queue_pair.length) {
                take_number.apply(roce.session, queue_pair, number);
                // What asks for an ACK is not what a probe follows: their ACKs would be alike.
                bit<1> ack_request =
                    (number.psn & queue_pair.ack_mask) == queue_pair.ack_mask
                    && queue_pair.opcode == WRITE_ONLY && number.wants_probe == 0 ? 1w1 : 0;
                put_bth(queue_pair.opcode, number.psn, ack_request);
                put_reth(
                    queue_pair.base + (bit<64>)number.slot * (bit<64>)queue_pair.stride,
                    (bit<32>)record_bytes);
                bytes = BTH_ICRC_BYTES + RETH_BYTES + record_bytes;
                if ((number.slot & queue_pair.immediate_mask) == queue_pair.immediate_mask) {
                    hdr.bth.opcode = hdr.bth.opcode | 1;  // WRITE ONLY WITH IMMEDIATE
                    hdr.immediate.setValid();
                    hdr.immediate.value = number.slot;
                    bytes = bytes + IMMEDIATE_BYTES;
                }
                if (queue_pair.has_hop == 1) {
                    fill_hop_record.apply(hdr.hop_record, hop);
                }
            }
        }
        if (bytes == 0) {
            hdr.flow_record.setInvalid();
            roce_events.count(ROCE_EVENT(roce.session, OUT_OF_REGION));
        } else if (roce.is_probe == 0) {
            wants_probe = number.wants_probe;
            roce_events.count(ROCE_EVENT(roce.session, SENT));
        }
    }
}

#endif
