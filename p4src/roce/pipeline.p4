/* What a RoCE switch does in ingress and in egress.
 *
 *   ingress   answers of collectors end here; forwarding --> watch: which session records it
 *   egress    what this switch knows of it --> the packet is cloned, and leaves as it came
 *             clone: becomes a WRITE or FETCH ADD --> now and then cloned again: a probe */
#ifndef TELEMARK_ROCE_PIPELINE_P4
#define TELEMARK_ROCE_PIPELINE_P4

#include "watch.p4"

struct metadata_t {
    roce_t roce;
    hop_t hop;
    readout_values_t readout;
}

#include "switch.p4"

#include "answers.p4"
#include "write.p4"

const bit<32> EGRESS_CLONE = 2;  // instance_type

control RoceIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Answers() answers;
    RoceWatch() watch;
    ReadoutRequest() readout_request;
    SessionReadout() session_readout;
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

    apply {
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
            session_readout.apply(meta.readout);
            readout_arrival.apply(hdr.readout, meta.readout);
        } else {
            bit<8> answered = NO_SESSION;
            answers.apply(hdr, answered, standard_metadata);
            if (answered == NO_SESSION) {
                forwarding.apply();
                watch.apply(hdr, meta.roce, meta.hop, standard_metadata);
            }
        }
    }
}

control RoceEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    SeeHop() see_hop;
    WriteRecord() write_record;

    apply {
        if (standard_metadata.instance_type == EGRESS_CLONE) {
            write_record.apply(hdr, meta.roce, meta.hop, standard_metadata);
        } else if (meta.roce.session != NO_SESSION) {
            see_hop.apply(meta.hop, standard_metadata);
            clone_preserving_field_list(
                CloneType.E2E, (bit<32>)meta.roce.session, RECORD_FIELDS);
        }
    }
}

#endif
