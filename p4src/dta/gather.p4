/* DTA primitives for which the translator collects reports. One request then writes several
 * reports.
 *
 * First, the translator plans the effect of a report: its cost, and whether collected reports are
 * written now. A report is rejected if its sequence number is a duplicate, or if the rate limit of
 * the session is exceeded. Otherwise, the translator updates the registers. A packet-out can flush
 * collected reports: its record number selects the primitive, and its index selects the reports.
 * The packet-out becomes a report without content, and the controller gets no reply. */
#ifndef TELEMARK_DTA_GATHER_P4
#define TELEMARK_DTA_GATHER_P4

#include "append.p4"
#include "postcarding.p4"
#include "sketch_merge.p4"

// Record numbers. The first 8 bits of an index are the number of the service.
const bit<16> FLUSH_LIST = 2;    // the rest of the index is the list (24 bits)
const bit<16> FLUSH_ROW = 3;     // the rest of the index is the row of the cache (24 bits)
const bit<16> FLUSH_COLUMN = 4;  // the rest is the sketch, and the first column / 8 (12 bits each)

/* `is_flush`: the packet-out requests a flush. */
control ReadFlush(inout headers_t hdr, inout plan_t plan, inout bit<1> is_flush) {
    action flush() {
        is_flush = 1;
        plan.service = hdr.readout_request.index[31:24];
    }

    apply {
        bit<24> whose = hdr.readout_request.index[23:0];
        if (hdr.readout_request.record == FLUSH_LIST) {
            flush();
            hdr.append.setValid();
            hdr.append.list = (bit<32>)whose;
            hdr.append.data = 0;
        } else if (hdr.readout_request.record == FLUSH_ROW) {
            flush();
            hdr.postcard.setValid();
            hdr.postcard.key = (bit<128>)whose;
        } else if (hdr.readout_request.record == FLUSH_COLUMN) {
            flush();
            hdr.sketch_merge.setValid();
            hdr.sketch_merge.sketch = (bit<16>)whose[23:12];
            hdr.sketch_merge.column = (bit<16>)whose[11:0] << 3;
        }
        if (is_flush == 1) {
            hdr.readout_request.setInvalid();
            hdr.dta.setValid();
            hdr.dta.immediate = 0;
            hdr.dta.retransmittable = 0;
            hdr.dta.reporter = 0;
            hdr.dta.sequence = 0;
        }
    }
}

struct gathering_t {
    bit<1> is_flush;
    batch_t batch;
    cache_t cache;
    column_t column;
}

control PlanGathering(
    inout headers_t hdr, in bit<8> reporter, inout plan_t plan, inout gathering_t gathering) {
    PlanAppend() plan_append;
    PlanPostcard() plan_postcard;
    PlanSketchMerge() plan_sketch_merge;

    apply {
        bit<1> immediate = hdr.dta.isValid() ? hdr.dta.immediate : hdr.prototype.immediate;
        if (hdr.append.isValid()) {
            plan_append.apply(hdr.append, immediate, gathering.is_flush, plan, gathering.batch);
        } else if (hdr.postcard.isValid()) {
            plan_postcard.apply(
                hdr.postcard, immediate, gathering.is_flush, plan, gathering.cache);
        } else if (hdr.sketch_merge.isValid()) {
            plan_sketch_merge.apply(
                hdr.sketch_merge, reporter, gathering.is_flush, plan, gathering.column);
        }
    }
}

control CommitGathering(inout headers_t hdr, in plan_t plan, in gathering_t gathering) {
    CommitAppend() commit_append;
    CommitPostcard() commit_postcard;
    CommitSketchMerge() commit_sketch_merge;

    apply {
        if (hdr.append.isValid()) {
            commit_append.apply(hdr, plan, gathering.batch);
        } else if (hdr.postcard.isValid()) {
            commit_postcard.apply(hdr, plan, gathering.cache);
        } else if (hdr.sketch_merge.isValid()) {
            commit_sketch_merge.apply(hdr, gathering.is_flush, plan, gathering.column);
        }
    }
}

#endif
