/* Ingress and egress of a translator.
 *
 *   ingress   answers of collectors end here; packets that are not reports for this switch pass
 *             report --> plan: session and number of copies --> check of its sequence number
 *                    --> effect on gathered reports --> rate --> the number is recorded
 *                    --> registers of gathered reports --> a multicast group makes the copies
 *             packet-out that flushes gathered reports: becomes a report without content
 *   egress    copy: place and data --> request --> sometimes cloned: a probe
 *             clone of a report: becomes a NACK */
#ifndef TELEMARK_DTA_PIPELINE_P4
#define TELEMARK_DTA_PIPELINE_P4

#include "../roce/session.p4"
#include "gather.p4"
#include "key_increment.p4"
#include "key_write.p4"
#include "prototype.p4"
#include "rate.p4"
#include "sequence.p4"

struct metadata_t {
    plan_t plan;
    arrival_t arrival;
    key_write_store_t key_write;
    bit<32> counter_mask;
    gathering_t gathering;
    readout_values_t readout;
}

const bit<32> INGRESS_CLONE = 1;  // instance_type
const bit<32> EGRESS_CLONE = 2;

#include "../roce/answers.p4"
#include "nack.p4"
#include "parser.p4"
#include "write.p4"

// Number of the clone session for NACKs through port 0; those of other ports follow. A NACK leaves
// through the port at which the report arrived. Lower numbers are numbers of sessions; their clone
// sessions lead to the collectors.
const bit<32> NACK_CLONES = 256;

/* Plans a report according to its opcode. */
control PlanReport(inout headers_t hdr, inout metadata_t meta) {
    FromPrototype() from_prototype;
    PlanKeyWrite() plan_key_write;
    PlanKeyIncrement() plan_key_increment;

    apply {
        from_prototype.apply(hdr);
        if (hdr.data_1.isValid() || hdr.data_3.isValid() || hdr.data_7.isValid()) {
            plan_key_write.apply(hdr.key_write, meta.plan, meta.key_write);
        } else if (hdr.key_increment.isValid()) {
            plan_key_increment.apply(hdr.key_increment, meta.plan, meta.counter_mask);
        } else if (
            !hdr.append.isValid() && !hdr.postcard.isValid() && !hdr.sketch_merge.isValid()) {
            meta.plan.problem = MALFORMED;
        }
    }
}

control Translate(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    PlanReport() plan_report;
    CheckSequence() check_sequence;
    LimitRate() limit_rate;
    PlanGathering() plan_gathering;
    MarkSequence() mark_sequence;
    CommitGathering() commit_gathering;

    apply {
        plan_report.apply(hdr, meta);
        check_sequence.apply(hdr, meta.arrival, meta.plan);
        if (meta.plan.problem == NO_PROBLEM) {
            plan_gathering.apply(hdr, meta.arrival.reporter, meta.plan, meta.gathering);
        }
        if (meta.plan.problem == NO_PROBLEM) {
            limit_rate.apply(meta.plan, standard_metadata.ingress_global_timestamp);
        }
        mark_sequence.apply(hdr, meta.arrival, meta.plan);
        if (meta.arrival.is_nacked == 1) {
            dta_events.count(DTA_EVENT(meta.arrival.reporter, NACKED));
            clone_preserving_field_list(
                CloneType.I2E, NACK_CLONES + (bit<32>)standard_metadata.ingress_port, NACK_FIELDS);
        }
        if (meta.plan.problem != NO_PROBLEM) {
            dta_events.count(DTA_EVENT(meta.arrival.reporter, meta.plan.problem));
            mark_to_drop(standard_metadata);
        } else {
            dta_events.count(DTA_EVENT(meta.arrival.reporter, TRANSLATED));
            commit_gathering.apply(hdr, meta.plan, meta.gathering);
            bit<4> last = meta.plan.copies - 1;
            if (meta.plan.copies == 0) {
                mark_to_drop(standard_metadata);
            } else {
                standard_metadata.mcast_grp = (bit<16>)(meta.plan.session ++ last[2:0]);
            }
        }
    }
}

control TranslatorIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Answers() answers;
    ReadFlush() read_flush;
    Translate() translate;
    ReadoutRequest() readout_request;
    ReadoutWrite() readout_write;
    SessionAccess() session_access;
    ReporterAccess() reporter_access;
    ListAccess() list_access;
    ReadoutArrival() readout_arrival;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table forwarding {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    action serve(bit<8> service) {
        meta.plan.service = service;
    }

    /* Destination addresses of the reports that this switch translates. */
    table services {
        key = { hdr.ipv4.dst_addr: exact; }
        actions = { serve; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        if (hdr.readout_request.isValid()) {
            read_flush.apply(hdr, meta.plan, meta.gathering.is_flush);
        }
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
            readout_write.apply(hdr.readout_write, meta.readout);
            session_access.apply(meta.readout);
            reporter_access.apply(meta.readout);
            list_access.apply(meta.readout);
            readout_arrival.apply(hdr.readout, meta.readout);
        } else {
            bool is_report = meta.gathering.is_flush == 1;
            if (!is_report) {
                bit<8> answered = NO_SESSION;
                answers.apply(hdr, answered, standard_metadata);
                if (answered == NO_SESSION) {
                    if ((hdr.dta.isValid() || hdr.prototype.isValid()) && services.apply().hit) {
                        is_report = true;
                    } else {
                        forwarding.apply();
                    }
                }
            }
            if (is_report) {
                translate.apply(hdr, meta, standard_metadata);
            }
        }
    }
}

control TranslatorEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    MakeNack() make_nack;
    WriteCopy() write_copy;

    apply {
        if (standard_metadata.instance_type == INGRESS_CLONE) {
            make_nack.apply(hdr, meta.arrival);
        } else if (meta.plan.session != NO_SESSION) {
            write_copy.apply(hdr, meta, standard_metadata);
        }
    }
}

#endif
