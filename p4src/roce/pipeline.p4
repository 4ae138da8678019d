/* Ingress and egress of a RoCE switch.
 *
 *   ingress   answers of collectors end here; forwarding --> watch: session that records the packet
 *   egress    this switch's data --> the packet is cloned, and leaves unchanged
 *             clone: becomes a WRITE or FETCH ADD --> sometimes cloned again: a probe */
#ifndef TELEMARK_ROCE_PIPELINE_P4
#define TELEMARK_ROCE_PIPELINE_P4

#include "packet.p4"
#include "cover.p4"
#include "watch.p4"

struct metadata_t {
    roce_t roce;
    hop_t hop;
    readout_values_t readout;
}

#include "switch.p4"

/* Creates a record with this `content`. Returns the size of the record in bytes; 0 means that there
 * is no record. */
control PutRecord(
    inout headers_t hdr, in metadata_t meta, in bit<8> content, inout bit<16> record_bytes) {
    FillFlowRecord() fill_flow;
    FillHopRecord() fill_hop;

    apply {
        hdr.flow_record.setInvalid();
        hdr.hop_record.setInvalid();
        if (content == FLOW || content == FLOW_AND_HOP) {
            fill_flow.apply(hdr.flow_record, hdr.ipv4, hdr.ipv6, hdr.ports, hdr.tcp);
            record_bytes = FLOW_RECORD_BYTES;
        }
        if (content == FLOW_AND_HOP) {
            fill_hop.apply(hdr.hop_record, meta.hop);
            record_bytes = FLOW_RECORD_BYTES + HOP_RECORD_BYTES;
        }
    }
}

#include "answers.p4"
#include "write.p4"

const bit<32> EGRESS_CLONE = 2;  // instance_type

control RoceWatch(
    in headers_t hdr, inout roce_t roce, inout hop_t hop,
    in standard_metadata_t standard_metadata) {
    RecordList() recorded;

    /* Sets the node id of the switch, and the offset of its clock. */
    action set_node(bit<32> node_id, bit<48> offset_us) {
        hop.node_id = node_id;
        hop.offset_us = offset_us;
    }

    table node {
        actions = { set_node; }
        default_action = set_node(0, 0);
    }

    apply {
        bit<16> src_port = 0;
        bit<16> dst_port = 0;
        node.apply();
        if (hdr.ports.isValid()) {
            src_port = hdr.ports.src_port;
            dst_port = hdr.ports.dst_port;
        }
        recorded.apply(hdr, src_port, dst_port, roce, standard_metadata);
    }
}

control RoceIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Answers() answers;
    RoceWatch() watch;
    ReadoutRequest() readout_request;
    ReadoutWrite() readout_write;
    SessionAccess() session_access;
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
            readout_write.apply(hdr.readout_write, meta.readout);
            session_access.apply(meta.readout);
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
    Hop() hop;
    WriteRecord() write_record;

    apply {
        if (standard_metadata.instance_type == EGRESS_CLONE) {
            write_record.apply(hdr, meta, standard_metadata);
        } else if (meta.roce.session != NO_SESSION) {
            hop.apply(meta.hop, standard_metadata);
            clone_preserving_field_list(
                CloneType.E2E, (bit<32>)meta.roce.session, CLONE_FIELDS);
        }
    }
}

#endif
