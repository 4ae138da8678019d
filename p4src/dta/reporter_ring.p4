/* Assigns sequence numbers to reports, and stores reports for retransmission. */
#ifndef TELEMARK_DTA_REPORTER_RING_P4
#define TELEMARK_DTA_REPORTER_RING_P4

#include "../include/readout.p4"
#include "reporter_packet.p4"

#define DTA_TRANSLATORS 16  // translators have numbers 1 to 15
#ifndef DTA_RING
#define DTA_RING 1024  // reports stored per translator, a power of two
#endif
#define DTA_KNOWN (8 * DTA_RING)  // number of reports whose flag "retransmittable" is stored

#define RING_SLOT(translator, sequence) \
    ((bit<32>)translator * DTA_RING + (sequence & (DTA_RING - 1)))
#define KIND_SLOT(translator, sequence) \
    ((bit<32>)translator * DTA_KNOWN + (sequence & (DTA_KNOWN - 1)))

register<bit<32>>(DTA_TRANSLATORS) dta_next;  // the sequence number of the next report
/* Each slot stores the sequence number, flags, opcode, words, detail, key and data of a report.
 * Reports that are not retransmittable use no slot, so they do not evict retransmittable
 * reports. */
register<bit<448>>(DTA_TRANSLATORS * DTA_RING) dta_ring;
register<bit<1>>(DTA_TRANSLATORS * DTA_KNOWN) dta_was_kept;
register<bit<32>>(DTA_TRANSLATORS) dta_left;  // requested reports that were overwritten

/* Lookup budget: the number of lookups for NACKs that each new report allows, now or later. This
 * limits the work caused by forged NACKs, or by a translator that repeatedly rejects the same
 * reports. */
const bit<32> PAID = 16;
const bit<32> MOST_PAID = PAID * DTA_RING;
register<bit<32>>(DTA_TRANSLATORS) dta_paid;    // remaining budget
register<bit<32>>(DTA_TRANSLATORS) dta_unpaid;  // reports requested by NACKs beyond the budget

// Counters per translator, by kind.
const bit<4> DTA_SENT = 0;     // new reports, numbered
const bit<4> DTA_NACKED = 1;   // NACKs received
const bit<4> DTA_RESENT = 2;   // retransmitted reports
const bit<4> DTA_NOT_KEPT = 3;  // requested reports that are not retransmittable
const bit<4> DTA_ABSURD = 4;   // NACKs for reports that were never sent
@noWarn("unused") const bit<4> DTA_LATE = 5;  // redundant NACKs of the prototype
const bit<4> DTA_UNPAID = 6;  // NACKs beyond the budget

counter(DTA_TRANSLATORS * 16, CounterType.packets) dta_events;

#define DTA_EVENT(translator, kind) ((bit<32>)(translator ++ kind))

const bit<16> DTA_STATE = 1;  // readout record number; index: translator

/* Reads the next sequence number, and the number of requested reports that were not available;
 * writing them restarts the numbering. */
control TranslatorAccess(inout readout_values_t readout) {
    bit<32> translator = readout.index & (DTA_TRANSLATORS - 1);

    action read_state() {
        bit<32> next;
        bit<32> left;
        bit<32> unpaid;
        dta_next.read(next, translator);
        dta_left.read(left, translator);
        dta_unpaid.read(unpaid, translator);
        readout.value_0 = (bit<64>)next;
        readout.value_1 = (bit<64>)left;
        readout.value_2 = (bit<64>)unpaid;
    }

    action write_state() {
        dta_next.write(translator, (bit<32>)readout.value_0);
        dta_left.write(translator, (bit<32>)readout.value_1);
        dta_unpaid.write(translator, (bit<32>)readout.value_2);
    }

    apply {
        if (readout.record == DTA_STATE) {
            read_state();
        } else if (readout.record == (DTA_STATE | WRITE)) {
            write_state();
        }
    }
}

/* Assigns a sequence number to a report before it is queued, so that a drop in a queue leaves a
 * gap. */
control NumberReport(inout dta_report_t report) {
    action number() {
        bit<32> index = (bit<32>)report.translator;
        dta_next.read(report.sequence, index);
        dta_next.write(index, report.sequence + 1);
        dta_was_kept.write(
            KIND_SLOT(report.translator, report.sequence), report.retransmittable);
        bit<32> paid;
        dta_paid.read(paid, index);
        dta_paid.write(index, paid < MOST_PAID ? paid + PAID : MOST_PAID);
    }

    action keep() {
        bit<64> head = report.sequence ++ 14w0 ++ report.immediate ++ 1w1 ++ report.opcode
            ++ report.words;
        dta_ring.write(
            RING_SLOT(report.translator, report.sequence),
            head ++ report.detail ++ report.key ++ report.data);
    }

    apply {
        number();
        if (report.retransmittable == 1) {
            keep();
        }
        dta_events.count(DTA_EVENT(report.translator, DTA_SENT));
    }
}

/* Reports to resend, one per packet: the NACK, and its clones. */
struct dta_resend_t {
    @field_list(DTA_FIELDS)
    bit<8> translator;  // 0 if no report is retransmitted
    @field_list(DTA_FIELDS)
    bit<32> next;
    @field_list(DTA_FIELDS)
    bit<32> left;
}

/* Reads the next report to retransmit, if it is available. */
control Resend(inout dta_resend_t resend, inout dta_report_t report) {
    bit<1> was_kept = 0;

    action tell_left() {
        bit<32> left;
        dta_left.read(left, (bit<32>)resend.translator);
        dta_left.write((bit<32>)resend.translator, left + 1);
    }

    action fetch() {
        bit<448> kept;
        dta_ring.read(kept, RING_SLOT(resend.translator, resend.next));
        dta_was_kept.read(was_kept, KIND_SLOT(resend.translator, resend.next));
        report.sequence = resend.next;
        report.immediate = kept[401:401];
        report.retransmittable = 1;
        report.opcode = kept[399:392];
        report.words = kept[391:384] ;
        report.detail = kept[383:352];
        report.key = kept[351:224];
        report.data = kept[223:0];
        report.translator =
            kept[400:400] == 1 && kept[447:416] == resend.next ? resend.translator : 0;
    }

    apply {
        fetch();
        if (report.translator != 0) {
            dta_events.count(DTA_EVENT(resend.translator, DTA_RESENT));
        } else if (was_kept == 1) {
            tell_left();
        } else {
            dta_events.count(DTA_EVENT(resend.translator, DTA_NOT_KEPT));
        }
        resend.next = resend.next + 1;
        resend.left = resend.left - 1;
    }
}

#ifdef DTA_PROTOTYPE
/* The prototype's translator rejects all reports after a missing one, and sends a NACK for each of
 * them. All of these NACKs name the same report. So only the first NACK is processed, and one more
 * after DTA_PATIENCE_US, in case the retransmitted report was lost. */
#ifndef DTA_PATIENCE_US
#define DTA_PATIENCE_US 500
#endif
register<bit<32>>(DTA_TRANSLATORS) dta_heard;  // first report requested by the last processed NACK
register<bit<48>>(DTA_TRANSLATORS) dta_heard_us;
#endif

/* Processes a NACK to this reporter: its packet becomes the first retransmitted report. */
control HearNack(
    in ipv4_t ipv4, inout bit<32> first, inout bit<32> missing, inout dta_resend_t resend,
    inout standard_metadata_t standard_metadata) {
    bit<1> is_absurd = 0;
    bit<1> is_late = 0;
    bit<32> excess = 0;  // requested reports beyond the budget

    action hear(bit<8> translator, bit<9> port) {
        bit<32> index = (bit<32>)translator;
        bit<32> next;
        bit<32> left;
        dta_next.read(next, index);
        dta_left.read(left, index);
#ifdef DTA_PROTOTYPE
        // The NACK contains the last received sequence number (eight bits) and requests all later
        // reports.
        missing = (bit<32>)(next[7:0] - 1 - first[7:0]);
        first = next - missing;
        bit<32> heard;
        bit<48> heard_us;
        bit<48> now_us = standard_metadata.ingress_global_timestamp;
        dta_heard.read(heard, index);
        dta_heard_us.read(heard_us, index);
        is_late = heard == first && now_us - heard_us < DTA_PATIENCE_US ? 1w1 : 0;
        dta_heard.write(index, first);
        dta_heard_us.write(index, is_late == 1 ? heard_us : now_us);
        missing = is_late == 1 ? 0 : missing;
#endif
        bit<32> behind = next - first;
        bit<32> unknown = behind > DTA_KNOWN ? behind - DTA_KNOWN : 0;
        unknown = unknown < missing ? unknown : missing;
        is_absurd = missing == 0 || missing > behind || behind[31:31] == 1 ? 1w1 : 0;
        resend.translator = translator;
        resend.next = first + unknown;
        resend.left = is_absurd == 1 ? 0 : missing - unknown;
        dta_left.write(index, is_absurd == 1 ? left : left + unknown);
        bit<32> paid;
        bit<32> unpaid;
        dta_paid.read(paid, index);
        dta_unpaid.read(unpaid, index);
        excess = resend.left > paid ? resend.left - paid : 0;
        resend.left = resend.left - excess;
        dta_paid.write(index, paid - resend.left);
        dta_unpaid.write(index, unpaid + excess);
        standard_metadata.egress_spec = port;
    }

    table translators_heard {
        key = {
            ipv4.src_addr: exact @name("hdr.ipv4.src_addr");
            ipv4.dst_addr: exact @name("hdr.ipv4.dst_addr");
        }
        actions = { hear; NoAction; }
        default_action = NoAction();
        size = DTA_TRANSLATORS;
    }

    apply {
        if (translators_heard.apply().hit) {
            dta_events.count(DTA_EVENT(resend.translator, DTA_NACKED));
            if (is_late == 1) {
                dta_events.count(DTA_EVENT(resend.translator, DTA_LATE));
            } else if (is_absurd == 1) {
                dta_events.count(DTA_EVENT(resend.translator, DTA_ABSURD));
            } else if (excess != 0) {
                dta_events.count(DTA_EVENT(resend.translator, DTA_UNPAID));
            }
            if (resend.left == 0) {
                mark_to_drop(standard_metadata);
            }
        }
    }
}

#endif
