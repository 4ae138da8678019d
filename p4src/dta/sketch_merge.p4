/* Sketch-Merge: adds up the sketches of many reporters by column. One request writes several
 * columns.
 *
 * A column is finished when each reporter has sent its values. When all eight columns of a group
 * are finished, the group is written. Then the registers of the group are cleared for the next
 * epoch. */
#ifndef TELEMARK_DTA_SKETCH_MERGE_P4
#define TELEMARK_DTA_SKETCH_MERGE_P4

#include "plan.p4"
#include "../roce/transport.p4"

#define DTA_COLUMNS 16384  // number of columns of all sketches of all services
const bit<4> NEIGHBOURS = 8;

register<bit<128>>(DTA_COLUMNS) sketch_sums;  // row 0 is in the highest bits
register<bit<256>>(DTA_COLUMNS) sketch_seen;  // bitmap of the reporters that have sent the column
register<bit<8>>(DTA_COLUMNS) sketch_count;   // number of reporters that have sent the column
// number of finished columns in each group of eight
register<bit<4>>(DTA_COLUMNS / 8) sketch_finished;

struct column_t {
    bit<32> index;  // index of the column's registers
    bit<128> sums;
    bit<256> seen;
    bit<8> count;
    bit<4> finished;  // number of finished columns in the group of the column
    bit<64> offset;   // offset of the group of eight columns in the region
    bit<32> group;    // number of the group of eight columns in the region
}

/* Plans the effect of a report on its column; in ingress. With `is_flush`, the group is written
 * even if not all its columns are finished. */
control PlanSketchMerge(
    in sketch_merge_t report, in bit<8> reporter, in bit<1> is_flush, inout plan_t plan,
    inout column_t column) {
    bit<8> session_of_all = NO_SESSION;
    bit<8> reporters = 0;
    bit<16> sketches = 0;
    bit<16> columns_of_each = 0;
    bit<1> has_some = 0;

    /* Sets the sketches of the service: their number, the number of their columns, and their first
     * register. Columns and first register are multiples of eight. */
    action merge(
        bit<8> session, bit<32> first, bit<16> count, bit<16> columns, bit<8> reporters_of_all) {
        session_of_all = session;
        reporters = reporters_of_all;
        sketches = count;
        columns_of_each = columns;
        bit<32> number = (bit<32>)report.sketch * (bit<32>)columns + (bit<32>)report.column;
        column.index = first + number;
        column.group = number >> 3;
        column.offset = (bit<64>)column.group << 7;
    }

    table sketch_stores {
        key = { plan.service: exact @name("service"); }
        actions = { merge; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action look_up() {
        sketch_sums.read(column.sums, column.index);
        sketch_seen.read(column.seen, column.index);
        sketch_count.read(column.count, column.index);
        sketch_finished.read(column.finished, column.index >> 3);
    }

    /* Adds the values; the sums saturate. */
    action add() {
        column.sums =
            (column.sums[127:96] |+| report.row_0) ++ (column.sums[95:64] |+| report.row_1)
            ++ (column.sums[63:32] |+| report.row_2) ++ (column.sums[31:0] |+| report.row_3);
        column.seen = column.seen | (256w1 << reporter);
        column.count = column.count + 1;
        column.finished = column.finished + (column.count == reporters ? 4w1 : 0);
    }

    action read_counts() {
        bit<32> first = column.index & ~32w7;
        bit<8> some = 0;
        bit<8> count;
#define READ_COUNT(n) sketch_count.read(count, first + n); some = some | count;
        READ_COUNT(0) READ_COUNT(1) READ_COUNT(2) READ_COUNT(3)
        READ_COUNT(4) READ_COUNT(5) READ_COUNT(6) READ_COUNT(7)
        has_some = some == 0 ? 1w0 : 1;
    }

    apply {
        if (!sketch_stores.apply().hit || (reporter == UNTRACKED && is_flush == 0)) {
            plan.problem = NOT_CONFIGURED;
        } else if (report.sketch >= sketches || report.column >= columns_of_each) {
            plan.problem = OUT_OF_RANGE;
        } else if (is_flush == 1) {
            read_counts();
            plan.copies = (bit<4>)has_some;
        } else {
            look_up();
            if ((column.seen >> reporter)[0:0] == 1) {
                plan.problem = COLUMN_TWICE;
            } else {
                add();
                plan.copies = column.finished == NEIGHBOURS ? 4w1 : 0;
            }
        }
        if (plan.copies != 0) {
            plan.session = session_of_all;
            plan.cost = ONE_REQUEST;
        }
    }
}

/* Adds the column of this reporter to the sum. This control runs in ingress if the report is not
 * rejected. */
control CommitSketchMerge(
    inout headers_t hdr, in bit<1> is_flush, in plan_t plan, in column_t column) {
    action keep() {
        sketch_sums.write(column.index, column.sums);
        sketch_seen.write(column.index, column.seen);
        sketch_count.write(column.index, column.count);
        sketch_finished.write(column.index >> 3, column.finished);
    }

    action take_all() {
        bit<32> first = column.index & ~32w7;
        bit<128> sums;
        hdr.words_32.setValid();
        hdr.words_32.words = 0;
#define TAKE(n) \
        sketch_sums.read(sums, first + n); \
        hdr.words_32.words = (hdr.words_32.words << 128) | (bit<1024>)sums; \
        sketch_sums.write(first + n, 0); \
        sketch_seen.write(first + n, 0); \
        sketch_count.write(first + n, 0);
        TAKE(0) TAKE(1) TAKE(2) TAKE(3) TAKE(4) TAKE(5) TAKE(6) TAKE(7)
        sketch_finished.write(column.index >> 3, 0);
    }

    apply {
        if (is_flush == 0) {
            keep();
        }
        if (plan.copies != 0) {
            take_all();
        }
    }
}

/* Creates the RDMA request; in egress. The immediate value is the number of the group. */
control RequestSketchMerge(in column_t column, inout request_t request) {
    apply {
        request.payload_bytes = 128;
        request.offset = column.offset;
        request.immediate = column.group;
    }
}

#endif
