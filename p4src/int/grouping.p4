/* Several reports per datagram. A report is recirculated and parsed as words. It waits in registers
 * until its group is complete, is too old, or has no room for another report. The report that
 * completes a group is sent to the collector together with the waiting reports.
 *
 * Switches have no timer. Therefore, a packet-out can flush waiting reports (record FLUSH_GROUP;
 * the index is the hw_id). The packet-out is sent to the collector together with the reports, and
 * the controller gets no reply. */
#ifndef TELEMARK_INT_GROUPING_P4
#define TELEMARK_INT_GROUPING_P4

#include "ingress.p4"
#include "report.p4"

const bit<32> RECIRCULATED = 4;      // instance_type
const bit<16> FLUSH_GROUP = 0xFFFF;  // different from all record numbers

#define GROUP_SLOTS 8  // maximum number of reports per group; the last report never waits
#define GROUP_CELLS 32  // number of slots for waiting reports, for all hw_ids together
// maximum number of words of a waiting report; a longer report is sent alone
const bit<16> LONGEST_WORDS = 63;

// Waiting reports, in pieces of 2^n words. A report has one piece for each bit that is set in its
// length.
register<bit<1024>>(GROUP_CELLS) group_32;
register<bit<512>>(GROUP_CELLS) group_16;
register<bit<256>>(GROUP_CELLS) group_8;
register<bit<128>>(GROUP_CELLS) group_4;
register<bit<64>>(GROUP_CELLS) group_2;
register<bit<32>>(GROUP_CELLS) group_1;
register<bit<8>>(GROUP_CELLS) group_length;

control StorePieces(in int_pieces_t pieces, in bit<8> length, in bit<32> cell) {
    apply {
        group_length.write(cell, length);
        if (length[5:5] == 1) {
            group_32.write(cell, pieces.of_32.words);
        }
        if (length[4:4] == 1) {
            group_16.write(cell, pieces.of_16.words);
        }
        if (length[3:3] == 1) {
            group_8.write(cell, pieces.of_8.words);
        }
        if (length[2:2] == 1) {
            group_4.write(cell, pieces.of_4.words);
        }
        if (length[1:1] == 1) {
            group_2.write(cell, pieces.of_2.words);
        }
        if (length[0:0] == 1) {
            group_1.write(cell, pieces.of_1.words);
        }
    }
}

control LoadPieces(inout int_pieces_t pieces, in bit<32> cell) {
    apply {
        bit<8> length;
        group_length.read(length, cell);
        if (length[5:5] == 1) {
            pieces.of_32.setValid();
            group_32.read(pieces.of_32.words, cell);
        }
        if (length[4:4] == 1) {
            pieces.of_16.setValid();
            group_16.read(pieces.of_16.words, cell);
        }
        if (length[3:3] == 1) {
            pieces.of_8.setValid();
            group_8.read(pieces.of_8.words, cell);
        }
        if (length[2:2] == 1) {
            pieces.of_4.setValid();
            group_4.read(pieces.of_4.words, cell);
        }
        if (length[1:1] == 1) {
            pieces.of_2.setValid();
            group_2.read(pieces.of_2.words, cell);
        }
        if (length[0:0] == 1) {
            pieces.of_1.setValid();
            group_1.read(pieces.of_1.words, cell);
        }
    }
}

/* Reads the waiting reports of a group into headers. `cell` is the first cell of the group. */
control LoadGroup(inout headers_t hdr, in bit<8> count, in bit<32> cell) {
    LoadPieces() take_0;
    LoadPieces() take_1;
    LoadPieces() take_2;
    LoadPieces() take_3;
    LoadPieces() take_4;
    LoadPieces() take_5;
    LoadPieces() take_6;

    apply {
        if (count > 0) {
            take_0.apply(hdr.gathered_0, cell);
        }
        if (count > 1) {
            take_1.apply(hdr.gathered_1, cell + 1);
        }
        if (count > 2) {
            take_2.apply(hdr.gathered_2, cell + 2);
        }
        if (count > 3) {
            take_3.apply(hdr.gathered_3, cell + 3);
        }
        if (count > 4) {
            take_4.apply(hdr.gathered_4, cell + 4);
        }
        if (count > 5) {
            take_5.apply(hdr.gathered_5, cell + 5);
        }
        if (count > 6) {
            take_6.apply(hdr.gathered_6, cell + 6);
        }
    }
}

/* Groups reports. Runs in ingress for a recirculated report, and for a packet-out that flushes. */
control Gather(
    inout headers_t hdr, inout int_report_t report, inout standard_metadata_t standard_metadata) {
    StorePieces() take_in;
    LoadGroup() take_all_out;
    WriteGroup() write_group;
    // State of the group of each hw_id:
    register<bit<8>>(4) counts;
    register<bit<16>>(4) lengths;
    register<bit<48>>(4) begins;
    register<bit<22>>(4) next_report;
    register<bit<22>>(4) next_packet;
    bit<32> node = 0;
    bit<8> most = 0;
    bit<16> room = 0;
    bit<48> patience = 0;
    bit<9> to = DROPPED;
    bit<32> part = 0;
    bit<8> count = 0;     // number of waiting reports
    bit<16> length = 0;   // number of words of the waiting reports
    bit<48> begin = 0;    // time of the first waiting report
    bit<22> number = 0;   // sequence number of the datagram with the group

    /* Sets the maximum number of reports per group, and the port to the collector. A group is also
     * sent if another report might not fit, or if a report arrives when the first waiting report is
     * too old. */
    action gather(
        bit<32> node_id, bit<8> reports, bit<16> words, bit<48> wait_us, bit<9> port) {
        node = node_id;
        most = reports;
        room = words;
        patience = wait_us;
        to = port;
    }

    table grouping {
        actions = { gather; NoAction; }
        default_action = NoAction();
    }

    action look_up() {
        part = (bit<32>)report.hw_id;
        counts.read(count, part);
        lengths.read(length, part);
        begins.read(begin, part);
        next_packet.read(number, part);
    }

    /* Counts a report. As without grouping, the sequence numbers have a gap if a report is lost
     * before this point. */
    action count_report() {
        bit<22> expected;
        next_report.read(expected, part);
        next_report.write(part, report.sequence + 1);
        number = number + (report.sequence - expected);
        next_packet.write(part, number);
    }

    action wait() {
        counts.write(part, count + 1);
        lengths.write(part, length + report.words);
        begins.write(part, count == 0 ? report.reported_us : begin);
    }

    action end_group() {
        counts.write(part, 0);
        lengths.write(part, 0);
        report.words = length + report.words;
    }

    action send() {
        next_packet.write(part, number + 1);
        standard_metadata.egress_spec = to;
        report.sequence = number;
    }

    apply {
        grouping.apply();
        mark_to_drop(standard_metadata);
        bool is_flush = hdr.readout_request.isValid();
        if (is_flush) {
            report.hw_id = 4w0 ++ hdr.readout_request.index[1:0];
            hdr.readout_request.setInvalid();
            look_up();
        } else {
            look_up();
            count_report();
        }
        bool is_last = count + 1 >= most || count + 1 == GROUP_SLOTS || length + report.words > room
            || (count != 0 && report.reported_us - begin >= patience);
        if (report.words > LONGEST_WORDS) {
            send();
            write_group.apply(hdr, report, node);
        } else if (!is_flush && !is_last) {
            take_in.apply(
                hdr.gathered_own, report.words[7:0], part * GROUP_SLOTS + (bit<32>)count);
            wait();
        } else if (!is_flush || count != 0) {
            take_all_out.apply(hdr, count, part * GROUP_SLOTS);
            end_group();
            send();
            write_group.apply(hdr, report, node);
        }
    }
}

#endif
