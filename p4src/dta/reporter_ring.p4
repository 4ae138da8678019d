/* Assigns sequence numbers to reports, and stores reports for retransmission. */
#ifndef TELEMARK_DTA_REPORTER_RING_P4
#define TELEMARK_DTA_REPORTER_RING_P4

#include "../include/readout.p4"
#include "reporter_packet.p4"

#define DTA_TRANSLATORS 16  // translators have numbers 1 to 15
#ifndef DTA_RING
#define DTA_RING 1024  // reports stored per translator, a power of two
#endif
#define DTA_FLAGS (8 * DTA_RING)  // number of stored flags "retransmittable"

#define RING_SLOT(translator, sequence) \
    ((bit<32>)translator * DTA_RING + (sequence & (DTA_RING - 1)))
#define FLAG_SLOT(translator, sequence) \
    ((bit<32>)translator * DTA_FLAGS + (sequence & (DTA_FLAGS - 1)))

register<bit<32>>(DTA_TRANSLATORS) dta_next;  // the sequence number of the next report
/* Each slot stores the sequence number, flags, opcode, words, detail, key and data of a report.
 * Reports that are not retransmittable use no slot, so they do not evict retransmittable
 * reports. */
register<bit<448>>(DTA_TRANSLATORS * DTA_RING) dta_ring;
register<bit<1>>(DTA_TRANSLATORS * DTA_FLAGS) dta_retransmittable;
register<bit<32>>(DTA_TRANSLATORS) dta_evicted;  // requested reports that were already overwritten

/* Lookup budget: each new report allows this number of lookups for NACKs, now or later. The budget
 * limits the work caused by forged NACKs, or by a translator that repeatedly rejects the same
 * reports. */
const bit<32> LOOKUPS_PER_REPORT = 16;
const bit<32> MAX_LOOKUPS = LOOKUPS_PER_REPORT * DTA_RING;
register<bit<32>>(DTA_TRANSLATORS) dta_lookups;  // remaining budget
register<bit<32>>(DTA_TRANSLATORS) dta_over_budget;  // reports requested by NACKs beyond the budget

// Counters per translator, by kind.
const bit<4> DTA_SENT = 0;     // new reports, numbered
const bit<4> DTA_NACKED = 1;   // NACKs received
const bit<4> DTA_RESENT = 2;   // retransmitted reports
const bit<4> DTA_NOT_STORED = 3;  // requested reports that are not retransmittable
const bit<4> DTA_NEVER_SENT = 4;  // NACKs for reports that were never sent
@noWarn("unused") const bit<4> DTA_REDUNDANT = 5;  // redundant NACKs of the prototype
const bit<4> DTA_OVER_BUDGET = 6;  // NACKs beyond the budget

counter(DTA_TRANSLATORS * 16, CounterType.packets) dta_events;

#define DTA_EVENT(translator, kind) ((bit<32>)(translator ++ kind))

const bit<16> DTA_STATE = 1;  // readout record number; index: translator

/* Reads or writes the next sequence number, and the numbers of requested reports that were
 * overwritten or exceeded the budget. */
control TranslatorAccess(inout readout_values_t readout) {
    bit<32> translator = readout.index & (DTA_TRANSLATORS - 1);

    action read_state() {
        bit<32> next;
        bit<32> evicted;
        bit<32> over_budget;
        dta_next.read(next, translator);
        dta_evicted.read(evicted, translator);
        dta_over_budget.read(over_budget, translator);
        readout.value_0 = (bit<64>)next;
        readout.value_1 = (bit<64>)evicted;
        readout.value_2 = (bit<64>)over_budget;
    }

    action write_state() {
        dta_next.write(translator, (bit<32>)readout.value_0);
        dta_evicted.write(translator, (bit<32>)readout.value_1);
        dta_over_budget.write(translator, (bit<32>)readout.value_2);
    }

    apply {
        if (readout.record == DTA_STATE) {
            read_state();
        } else if (readout.record == (DTA_STATE | WRITE)) {
            write_state();
        }
    }
}

/* Assigns a sequence number to a report before it is queued, so that a drop in a queue causes a
 * gap. */
control NumberReport(inout dta_report_t report) {
    action number() {
        bit<32> index = (bit<32>)report.translator;
        dta_next.read(report.sequence, index);
        dta_next.write(index, report.sequence + 1);
        dta_retransmittable.write(
            FLAG_SLOT(report.translator, report.sequence), report.retransmittable);
        bit<32> lookups;
        dta_lookups.read(lookups, index);
        dta_lookups.write(
            index, lookups < MAX_LOOKUPS ? lookups + LOOKUPS_PER_REPORT : MAX_LOOKUPS);
    }

    action store() {
        bit<64> head = report.sequence ++ 14w0 ++ report.immediate ++ 1w1 ++ report.opcode
            ++ report.words;
        dta_ring.write(
            RING_SLOT(report.translator, report.sequence),
            head ++ report.detail ++ report.key ++ report.data);
    }

    apply {
        number();
        if (report.retransmittable == 1) {
            store();
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
    bit<32> remaining;
}

/* Reads the next report to retransmit, if it is available. */
control Resend(inout dta_resend_t resend, inout dta_report_t report) {
    bit<1> was_retransmittable = 0;

    action count_evicted() {
        bit<32> evicted;
        dta_evicted.read(evicted, (bit<32>)resend.translator);
        dta_evicted.write((bit<32>)resend.translator, evicted + 1);
    }

    action fetch() {
        bit<448> stored;
        dta_ring.read(stored, RING_SLOT(resend.translator, resend.next));
        dta_retransmittable.read(was_retransmittable, FLAG_SLOT(resend.translator, resend.next));
        report.sequence = resend.next;
        report.immediate = stored[401:401];
        report.retransmittable = 1;
        report.opcode = stored[399:392];
        report.words = stored[391:384] ;
        report.detail = stored[383:352];
        report.key = stored[351:224];
        report.data = stored[223:0];
        report.translator =
            stored[400:400] == 1 && stored[447:416] == resend.next ? resend.translator : 0;
    }

    apply {
        fetch();
        if (report.translator != 0) {
            dta_events.count(DTA_EVENT(resend.translator, DTA_RESENT));
        } else if (was_retransmittable == 1) {
            count_evicted();
        } else {
            dta_events.count(DTA_EVENT(resend.translator, DTA_NOT_STORED));
        }
        resend.next = resend.next + 1;
        resend.remaining = resend.remaining - 1;
    }
}

#ifdef DTA_PROTOTYPE
/* The prototype's translator rejects all reports after a missing report, and sends a NACK for each
 * of them. All these NACKs request the same report. So only the first NACK is processed. A further
 * NACK is processed after DTA_PATIENCE_US, in case the retransmitted report was lost. */
#ifndef DTA_PATIENCE_US
#define DTA_PATIENCE_US 500
#endif
// First report requested by the last processed NACK, and time of this NACK.
register<bit<32>>(DTA_TRANSLATORS) dta_last_nack;
register<bit<48>>(DTA_TRANSLATORS) dta_last_nack_us;
#endif

/* Processes a NACK to this reporter: its packet becomes the first retransmitted report. */
control ProcessNack(
    in ipv4_t ipv4, inout bit<32> first, inout bit<32> missing, inout dta_resend_t resend,
    inout standard_metadata_t standard_metadata) {
    bit<1> is_invalid = 0;
    bit<1> is_redundant = 0;
    bit<32> excess = 0;  // requested reports beyond the budget

    action process(bit<8> translator, bit<9> port) {
        bit<32> index = (bit<32>)translator;
        bit<32> next;
        bit<32> evicted;
        dta_next.read(next, index);
        dta_evicted.read(evicted, index);
#ifdef DTA_PROTOTYPE
        // The NACK contains the last received sequence number (eight bits) and requests all later
        // reports.
        missing = (bit<32>)(next[7:0] - 1 - first[7:0]);
        first = next - missing;
        bit<32> previous;
        bit<48> previous_us;
        bit<48> now_us = standard_metadata.ingress_global_timestamp;
        dta_last_nack.read(previous, index);
        dta_last_nack_us.read(previous_us, index);
        is_redundant = previous == first && now_us - previous_us < DTA_PATIENCE_US ? 1w1 : 0;
        dta_last_nack.write(index, first);
        dta_last_nack_us.write(index, is_redundant == 1 ? previous_us : now_us);
        missing = is_redundant == 1 ? 0 : missing;
#endif
        bit<32> behind = next - first;
        bit<32> unknown = behind > DTA_FLAGS ? behind - DTA_FLAGS : 0;
        unknown = unknown < missing ? unknown : missing;
        is_invalid = missing == 0 || missing > behind || behind[31:31] == 1 ? 1w1 : 0;
        resend.translator = translator;
        resend.next = first + unknown;
        resend.remaining = is_invalid == 1 ? 0 : missing - unknown;
        dta_evicted.write(index, is_invalid == 1 ? evicted : evicted + unknown);
        bit<32> lookups;
        bit<32> over_budget;
        dta_lookups.read(lookups, index);
        dta_over_budget.read(over_budget, index);
        excess = resend.remaining > lookups ? resend.remaining - lookups : 0;
        resend.remaining = resend.remaining - excess;
        dta_lookups.write(index, lookups - resend.remaining);
        dta_over_budget.write(index, over_budget + excess);
        standard_metadata.egress_spec = port;
    }

    table nack_sources {
        key = {
            ipv4.src_addr: exact @name("hdr.ipv4.src_addr");
            ipv4.dst_addr: exact @name("hdr.ipv4.dst_addr");
        }
        actions = { process; NoAction; }
        default_action = NoAction();
        size = DTA_TRANSLATORS;
    }

    apply {
        if (nack_sources.apply().hit) {
            dta_events.count(DTA_EVENT(resend.translator, DTA_NACKED));
            if (is_redundant == 1) {
                dta_events.count(DTA_EVENT(resend.translator, DTA_REDUNDANT));
            } else if (is_invalid == 1) {
                dta_events.count(DTA_EVENT(resend.translator, DTA_NEVER_SENT));
            } else if (excess != 0) {
                dta_events.count(DTA_EVENT(resend.translator, DTA_OVER_BUDGET));
            }
            if (resend.remaining == 0) {
                mark_to_drop(standard_metadata);
            }
        }
    }
}

#endif
