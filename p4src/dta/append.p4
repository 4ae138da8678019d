/* Append: a list's entries are gathered into batches, and each batch is written behind the last.
 *
 * A list is a ring of batches in memory. Behind the entries of a batch is its tail: how many of them
 * are valid, and its number, from 1 on over all laps (collectors/dta/append.py reads them). */
#ifndef TELEMARK_DTA_APPEND_P4
#define TELEMARK_DTA_APPEND_P4

#include "../include/readout.p4"
#include "plan.p4"
#include "../roce/transport.p4"

#define DTA_LISTS 4096  // of all services together

// Of the batch that is gathered:
register<bit<512>>(DTA_LISTS) append_entries;  // the first one foremost
register<bit<8>>(DTA_LISTS) append_count;      // so many there are
register<bit<32>>(DTA_LISTS) append_slot;      // where in its ring it goes
register<bit<27>>(DTA_LISTS) append_number;    // of the batch before it

const bit<27> LAST_NUMBER = 0x7FFFFFF;  // the next one is 1: number 0 was never written

const bit<16> LIST_STATE = 8;  // number of the readout record; index: the list, in the registers

/* Reads or writes a list's place in its ring: the number of the last batch, the slot of the next one,
 * and how many entries are gathered; to write it empties the batch. */
control ListAccess(inout readout_values_t readout) {
    bit<32> cell = readout.index & (DTA_LISTS - 1);

    action read_place() {
        bit<27> number;
        bit<32> slot;
        bit<8> count;
        append_number.read(number, cell);
        append_slot.read(slot, cell);
        append_count.read(count, cell);
        readout.value_0 = (bit<64>)number;
        readout.value_1 = (bit<64>)slot;
        readout.value_2 = (bit<64>)count;
    }

    action write_place() {
        append_number.write(cell, (bit<27>)readout.value_0);
        append_slot.write(cell, (bit<32>)readout.value_1);
        append_count.write(cell, 0);
        append_entries.write(cell, 0);
    }

    apply {
        if (readout.record == LIST_STATE) {
            read_place();
        } else if (readout.record == (LIST_STATE | WRITE)) {
            write_place();
        }
    }
}

struct batch_t {
    bit<8> session;
    bit<32> index;    // of the list, in the registers
    bit<32> batches;  // of its ring
    bit<8> size;      // entries of a batch: 1, 2, 4, 8 or 16
    bit<512> entries;
    bit<8> count;
    bit<32> slot;
    bit<27> number;
    bit<64> offset;   // of its bytes in the region
}

/* In ingress: what the batch will be. It is written when it is full; or at once, where the report
 * asks for an immediate, or there is no report but a wish to have what is gathered (`is_flush`). */
control PlanAppend(
    in append_t report, in bit<1> is_immediate, in bit<1> is_flush, inout plan_t plan,
    inout batch_t batch) {
    bit<32> lists = 0;

    /* Lists 0 to `count` - 1, whose registers are those from `first` on. */
    action append(bit<8> session, bit<32> first, bit<32> count, bit<32> batches, bit<8> size) {
        batch.session = session;
        lists = count;
        batch.index = first + report.list;
        batch.batches = batches;
        batch.size = size;
    }

    table list_stores {
        key = { plan.service: exact @name("service"); }
        actions = { append; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action look_up() {
        append_entries.read(batch.entries, batch.index);
        append_count.read(batch.count, batch.index);
        append_slot.read(batch.slot, batch.index);
        append_number.read(batch.number, batch.index);
        batch.number = batch.number == LAST_NUMBER ? 27w1 : batch.number + 1;
        bit<64> before = (bit<64>)report.list * (bit<64>)batch.batches + (bit<64>)batch.slot;
        batch.offset = before * (((bit<64>)batch.size << 2) + 4);
    }

    action take_entry() {
        // In its half of the batch, of eight words: bmv2 shifts by 255 at most.
        bit<256> half = (bit<256>)report.data << ((~batch.count & 7) << 5);
        batch.entries = batch.entries | (batch.count < 8 ? half ++ 256w0 : 256w0 ++ half);
        batch.count = batch.count + 1;
    }

    apply {
        if (!list_stores.apply().hit) {
            plan.problem = NOT_CONFIGURED;
        } else if (report.list >= lists) {
            plan.problem = OUT_OF_RANGE;
        } else {
            look_up();
            if (is_flush == 0) {
                take_entry();
            }
            if (batch.count == batch.size || (batch.count != 0 && (is_immediate | is_flush) == 1)) {
                plan.session = batch.session;
                plan.copies = 1;
                plan.cost = ONE_REQUEST;
            }
        }
    }
}

/* In ingress, when nothing speaks against it: the registers change, and a batch that is to be
 * written is put into the packet. */
control CommitAppend(inout headers_t hdr, in plan_t plan, in batch_t batch) {
    action gather() {
        append_entries.write(batch.index, batch.entries);
        append_count.write(batch.index, batch.count);
    }

    action begin_next() {
        append_entries.write(batch.index, 0);
        append_count.write(batch.index, 0);
        append_slot.write(batch.index, batch.slot + 1 == batch.batches ? 0 : batch.slot + 1);
        append_number.write(batch.index, batch.number);
    }

    apply {
        if (plan.copies == 0) {
            gather();
        } else {
            begin_next();
            bit<32> tail = batch.count[4:0] ++ batch.number;
            if (batch.size == 1) {
                hdr.words_2.setValid();
                hdr.words_2.words = batch.entries[511:480] ++ tail;
            } else {
                hdr.words_1.setValid();
                hdr.words_1.words = tail;
                if (batch.size == 2) {
                    hdr.words_2.setValid();
                    hdr.words_2.words = batch.entries[511:448];
                } else if (batch.size == 4) {
                    hdr.words_4.setValid();
                    hdr.words_4.words = batch.entries[511:384];
                } else if (batch.size == 8) {
                    hdr.words_8.setValid();
                    hdr.words_8.words = batch.entries[511:256];
                } else {
                    hdr.words_16.setValid();
                    hdr.words_16.words = batch.entries;
                }
            }
        }
    }
}

/* In egress. An immediate value is the number of the list. */
control AskAppend(in append_t report, in batch_t batch, inout request_t request) {
    apply {
        request.offset = batch.offset;
        request.payload_bytes = ((bit<16>)batch.size << 2) + 4;
        request.immediate = report.list;
    }
}

#endif
