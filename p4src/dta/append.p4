/* Append: collects entries of a list in batches, and writes each batch to the next slot in memory.
 *
 * A list is a ring buffer of batches in memory. Each batch ends with a tail: the number of valid
 * entries, and the batch number. Batch numbers start at 1, and continue when the ring starts again
 * (see collectors/dta/append.py). */
#ifndef TELEMARK_DTA_APPEND_P4
#define TELEMARK_DTA_APPEND_P4

#include "../include/readout.p4"
#include "plan.p4"
#include "../roce/transport.p4"

#define DTA_LISTS 4096  // number of lists of all services together

// State of the incomplete batch:
register<bit<512>>(DTA_LISTS) append_entries;  // the first entry is in the highest bits
register<bit<8>>(DTA_LISTS) append_count;      // number of entries
register<bit<32>>(DTA_LISTS) append_slot;      // slot of the batch in the ring
register<bit<27>>(DTA_LISTS) append_number;    // number of the previous batch in the list

const bit<27> LAST_NUMBER = 0x7FFFFFF;  // the next number is 1; 0 means that nothing was written

const bit<16> LIST_STATE = 8;  // readout record number; the index is the register index of the list

/* Reads or writes the state of a list: the number of the last batch, the slot of the next batch,
 * and the number of waiting entries. If the state is written, the waiting entries are discarded. */
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
    bit<32> index;    // register index of the list
    bit<32> batches;  // number of batches in the ring of the list
    bit<8> size;      // entries per batch: 1, 2, 4, 8 or 16
    bit<512> entries;
    bit<8> count;
    bit<32> slot;
    bit<27> number;
    bit<64> offset;   // offset in the region, in bytes
}

/* Plans the batch; in ingress. A batch is written in three cases: it is full, a report asks for an
 * immediate, or a packet-out flushes it (`is_flush`). */
control PlanAppend(
    in append_t report, in bit<1> is_immediate, in bit<1> is_flush, inout plan_t plan,
    inout batch_t batch) {
    bit<32> lists = 0;

    /* Sets the lists of the service. They have the numbers 0 to `count` - 1; their registers start
     * at `first`. */
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
        // The batch is handled as two halves of eight words, because bmv2 shifts by at most 255
        // bits.
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

/* Updates the registers. If a batch is to be written, copies it to the packet. This control runs in
 * ingress if the report is not rejected. */
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

/* Creates the RDMA request; in egress. The immediate value is the number of the list. */
control RequestAppend(in append_t report, in batch_t batch, inout request_t request) {
    apply {
        request.offset = batch.offset;
        request.payload_bytes = ((bit<16>)batch.size << 2) + 4;
        request.immediate = report.list;
    }
}

#endif
