/* Egress: converts each copy of a report to an RDMA request. The request goes to the collector of
 * the session. */
#ifndef TELEMARK_DTA_WRITE_P4
#define TELEMARK_DTA_WRITE_P4

#include "../roce/network.p4"
#include "../roce/transport.p4"
#include "key_increment.p4"
#include "key_write.p4"

/* A request that would write beyond the end of the region is not sent. */
control WriteCopy(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    RequestKeyWrite() request_key_write;
    RequestKeyIncrement() request_key_increment;
    RequestAppend() request_append;
    RequestPostcard() request_postcard;
    RequestSketchMerge() request_sketch_merge;
    RemoveReport() take_report_off;
    AllocateNumber() take_number;
    PutRequest() put_request;
    PutProbe() put_probe;
    ToCollector() to_collector;
    queue_pair_t queue_pair = { 0, 0, 0, 0, 0, 0, 0 };
    request_t request = { 0, 0, 0, 0, 0 };
    number_t next = { 0, 0, 0, 0 };
    bit<16> bytes = 0;  // length from BTH to iCRC

    action no_session() {
        mark_to_drop(standard_metadata);
    }

    action write(
        bit<1> unreliable, bit<24> qpn, bit<32> rkey, bit<64> base, bit<64> length,
        bit<24> ack_mask, bit<32> patience) {
        queue_pair.opcode = WRITE_ONLY | (unreliable == 1 ? UC : RC);
        queue_pair.number = qpn;
        queue_pair.rkey = rkey;
        queue_pair.base = base;
        queue_pair.length = length;
        queue_pair.ack_mask = ack_mask;
        queue_pair.patience = patience;
    }

    action fetch_add(
        bit<24> qpn, bit<32> rkey, bit<64> base, bit<64> length, bit<32> patience) {
        write(0, qpn, rkey, base, length, 0, patience);
        queue_pair.opcode = FETCH_ADD;
    }

    table queue_pairs {
        key = { meta.plan.session: exact @name("session"); }
        actions = { write; fetch_add; no_session; }
        default_action = no_session();
        size = ROCE_SESSIONS;
    }

    /* Removes the headers of the report. For a probe, removes the headers of the request. */
    action remove_headers() {
        hdr.ethernet.setInvalid();
        hdr.grh.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.ipv4_options.setInvalid();
        hdr.ipv6.setInvalid();
        hdr.ports.setInvalid();
        hdr.dta.setInvalid();
        hdr.prototype.setInvalid();
        hdr.bth.setInvalid();
        hdr.reth.setInvalid();
        hdr.atomic.setInvalid();
        hdr.immediate.setInvalid();
        hdr.icrc.setInvalid();
    }

    action remove_payload() {
        hdr.words_32.setInvalid();
        hdr.words_16.setInvalid();
        hdr.words_8.setInvalid();
        hdr.words_4.setInvalid();
        hdr.words_2.setInvalid();
        hdr.words_1.setInvalid();
    }

    apply {
        bit<1> is_probe = standard_metadata.instance_type == EGRESS_CLONE ? 1w1 : 0;
        bit<32> copy = (bit<32>)standard_metadata.egress_rid;
        bit<1> wants_immediate =
            hdr.dta.isValid() ? hdr.dta.immediate : hdr.prototype.immediate;
        if (is_probe == 1) {
            remove_payload();
        } else if (hdr.key_write.isValid()) {
            request_key_write.apply(hdr, copy, meta.key_write, request);
        } else if (hdr.key_increment.isValid()) {
            request_key_increment.apply(hdr.key_increment, copy, meta.counter_mask, request);
        } else if (hdr.append.isValid()) {
            request_append.apply(hdr.append, meta.gathering.batch, request);
        } else if (hdr.postcard.isValid()) {
            request_postcard.apply(hdr.postcard, copy, meta.gathering.cache, request);
        } else if (hdr.sketch_merge.isValid()) {
            request_sketch_merge.apply(meta.gathering.column, request);
        }
        request.has_immediate = copy == 0 ? wants_immediate : 0;
        take_report_off.apply(hdr);
        remove_headers();
        queue_pairs.apply();
        if (is_probe == 1) {
            put_probe.apply(hdr, meta.plan.session, queue_pair, bytes);
        } else if (queue_pair.opcode != 0) {
            bit<64> written =
                queue_pair.opcode == FETCH_ADD ? 64w8 : (bit<64>)request.payload_bytes;
            if (request.offset + written <= queue_pair.length) {
                take_number.apply(meta.plan.session, queue_pair.patience, 0, next);
                put_request.apply(hdr, queue_pair, request, next, bytes);
            } else {
                roce_events.count(ROCE_EVENT(meta.plan.session, OUT_OF_REGION));
            }
        }
        to_collector.apply(hdr, meta.plan.session, bytes, standard_metadata);
        if (next.wants_probe == 1) {
            clone_preserving_field_list(
                CloneType.E2E, (bit<32>)meta.plan.session, PROBE_FIELDS);
        }
    }
}

#endif
