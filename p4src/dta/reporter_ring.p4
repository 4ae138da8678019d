/* Assigns sequence numbers to reports. Stores reports, in order to send them again on request. */
#ifndef TELEMARK_DTA_REPORTER_RING_P4
#define TELEMARK_DTA_REPORTER_RING_P4

#include "../include/readout.p4"
#include "reporter_packet.p4"

#define DTA_TRANSLATORS 16  // the numbers of translators are 1 to 15
#ifndef DTA_RING
#define DTA_RING 1024  // number of reports that are stored per translator; a power of two
#endif
// number of stored flags; a flag says whether a report is retransmittable
#define DTA_FLAGS (8 * DTA_RING)

#define RING_SLOT(translator, sequence) \
    ((bit<32>)translator * DTA_RING + (sequence & (DTA_RING - 1)))
#define FLAG_SLOT(translator, sequence) \
    ((bit<32>)translator * DTA_FLAGS + (sequence & (DTA_FLAGS - 1)))

register<bit<32>>(DTA_TRANSLATORS) dta_next;  // the sequence number of the next report
/* Each slot stores the sequence number, flags, opcode, words, detail, key and data of a report. A
 * report that is not retransmittable uses no slot, so it does not evict a retransmittable
 * report. */
register<bit<448>>(DTA_TRANSLATORS * DTA_RING) dta_ring;
register<bit<1>>(DTA_TRANSLATORS * DTA_FLAGS) dta_retransmittable;
// reports that were requested again, but had been overwritten
register<bit<32>>(DTA_TRANSLATORS) dta_evicted;

/* Budget of lookups: each new report allows this number of lookups for NACKs, now or later. The
 * budget limits the work that forged NACKs can cause. It also limits the work if a translator
 * rejects the same reports again and again. */
const bit<32> LOOKUPS_PER_REPORT = 16;
const bit<32> MAX_LOOKUPS = LOOKUPS_PER_REPORT * DTA_RING;
register<bit<32>>(DTA_TRANSLATORS) dta_lookups;  // remaining budget
// reports that NACKs requested above the budget
register<bit<32>>(DTA_TRANSLATORS) dta_over_budget;

// Counters per translator and kind.
const bit<4> DTA_SENT = 0;     // new reports, each with a new number
const bit<4> DTA_NACKED = 1;   // NACKs received
const bit<4> DTA_RESENT = 2;   // retransmitted reports
const bit<4> DTA_NOT_STORED = 3;  // reports that were requested again, but are not retransmittable
const bit<4> DTA_NEVER_SENT = 4;  // NACKs that request reports that were never sent
// NACKs of the prototype that repeat an earlier NACK
@noWarn("unused") const bit<4> DTA_REDUNDANT = 5;
const bit<4> DTA_OVER_BUDGET = 6;  // NACKs that exceed the budget

counter(DTA_TRANSLATORS * 16, CounterType.packets) dta_events;

#define DTA_EVENT(translator, kind) ((bit<32>)(translator ++ kind))

const bit<16> DTA_STATE = 1;  // readout record number; the index is the translator

/* Reads or writes the next sequence number, and two counts of reports that were requested again:
 * those that were overwritten, and those that exceeded the budget. */
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

/* Assigns a sequence number to a report before the report is queued. So a drop in the queue leaves
 * a gap in the numbers. */
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

/* Reports that are to be sent again. The NACK itself becomes the first of them, and clones of the
 * NACK become the others. */
struct dta_resend_t {
    @field_list(DTA_FIELDS)
    bit<8> translator;  // 0 if no report is sent again
    @field_list(DTA_FIELDS)
    bit<32> next;
    @field_list(DTA_FIELDS)
    bit<32> remaining;
}

/* Reads the next report that is to be sent again, if it is still stored. */
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
/* After a missing report, the translator of the prototype rejects all reports, and sends a NACK for
 * each of them. All these NACKs request the same report. So only the first NACK is processed. A
 * later NACK is processed only if DTA_PATIENCE_US have passed, because then the report that was
 * sent again may have been lost. */
#ifndef DTA_PATIENCE_US
#define DTA_PATIENCE_US 500
#endif
// The first report that the last processed NACK requested, and the time of this NACK.
register<bit<32>>(DTA_TRANSLATORS) dta_last_nack;
register<bit<48>>(DTA_TRANSLATORS) dta_last_nack_us;
#endif

/* Processes a NACK for this reporter. The packet of the NACK becomes the first report that is sent
 * again. */
control ProcessNack(
    in ipv4_t ipv4, inout bit<32> first, inout bit<32> missing, inout dta_resend_t resend,
    inout standard_metadata_t standard_metadata) {
    bit<1> is_invalid = 0;
    bit<1> is_redundant = 0;
    bit<32> excess = 0;  // number of requested reports that exceed the budget

    action process(bit<8> translator, bit<9> port) {
        bit<32> index = (bit<32>)translator;
        bit<32> next;
        bit<32> evicted;
        dta_next.read(next, index);
        dta_evicted.read(evicted, index);
#ifdef DTA_PROTOTYPE
        // The NACK contains the sequence number that was received last (eight bits), and requests
        // all later reports.
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
