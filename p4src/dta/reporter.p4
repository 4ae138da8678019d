/* The reporter: sends DTA reports about flows, and forwards the packets of hosts unchanged.
 *
 *   ingress   NACKs of translators end here; watch: which reports the flow needs --> forwarding by
 *             MAC address, or else by route
 *   egress    the flow's cell: is a report due? --> the packet is cloned, and leaves
 *             clone: the report is written in front of it --> cloned again for the next report
 *             NACK: becomes the first resent report --> cloned for the next one */
#include "../include/routing.p4"
#include "reporter_packet.p4"
#include "reporter_flows.p4"
#include "reporter_ring.p4"

struct metadata_t {
    dta_flow_t flow;
    dta_report_t report;
    dta_resend_t resend;
    readout_values_t readout;
}

#include "reporter_send.p4"
#include "reporter_switch.p4"
#include "reporter_watch.p4"

const bit<32> INGRESS_CLONE = 1;  // instance_type
const bit<32> EGRESS_CLONE = 2;
// a full queue dropped the packet; only on minip4 with --deflect-on-drop
const bit<32> DEFLECTED = 7;
const bit<9> DROPPED = 511;  // egress_spec

control ReporterIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ProcessNack() process_nack;
    Routing() routing;
    WatchFlow() watch_flow;
    LocateSegment() locate_segment;
    PlanReport() plan_drop;
    NumberReport() number;
    ReadoutRequest() readout_request;
    ReadoutWrite() readout_write;
    TranslatorAccess() translator_access;
    ReadoutArrival() readout_arrival;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    table forwarding {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        bit<32> first = hdr.nack_base.sequence;
        bit<32> missing = hdr.nack.count;
#ifdef DTA_PROTOTYPE
        first = (bit<32>)hdr.short_nack.sequence;
#endif
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
            readout_write.apply(hdr.readout_write, meta.readout);
            translator_access.apply(meta.readout);
            readout_arrival.apply(hdr.readout, meta.readout);
        } else if (hdr.nack.isValid() || hdr.short_nack.isValid()) {
            process_nack.apply(hdr.ipv4, first, missing, meta.resend, standard_metadata);
        }
        if (!hdr.readout.isValid() && meta.resend.translator == 0) {
            bit<16> src_port = 0;
            bit<16> dst_port = 0;
            if (hdr.ports.isValid()) {
                src_port = hdr.ports.src_port;
                dst_port = hdr.ports.dst_port;
            }
            watch_flow.apply(
                hdr.ipv4, hdr.ipv4.protocol, src_port, dst_port, meta.flow, standard_metadata);
            locate_segment.apply(hdr.ipv4, hdr.ports, hdr.tcp, meta.flow);
            if (!forwarding.apply().hit) {
                routing.apply(hdr.ethernet, hdr.ipv4, hdr.ports, standard_metadata);
            }
            if (standard_metadata.egress_spec == DROPPED) {
                meta.flow.wanted = meta.flow.wanted & WANT_DROPPED;
                plan_drop.apply(meta.flow, meta.report);
                if (meta.report.translator != 0) {
                    number.apply(meta.report);
                    clone_preserving_field_list(
                        CloneType.I2E, DTA_SESSIONS + (bit<32>)meta.report.translator,
                        DTA_FIELDS);
                }
            }
        }
    }
}

control ReporterEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    TrackFlow() track_flow;
    SendReports() reports;

    apply {
        bool is_clone = standard_metadata.instance_type == INGRESS_CLONE
            || standard_metadata.instance_type == EGRESS_CLONE;
        if (standard_metadata.instance_type == DEFLECTED) {
            meta.flow.wanted = meta.flow.wanted & WANT_DROPPED;
        } else if (!is_clone && meta.flow.wanted != 0) {
            track_flow.apply(meta.flow, standard_metadata);
        }
        reports.apply(
            hdr.report, meta.flow, meta.report, meta.resend, is_clone, standard_metadata);
    }
}

V1Switch(
    ReporterParser(), ReporterVerifyChecksum(), ReporterIngress(), ReporterEgress(),
    ReporterComputeChecksum(), ReporterDeparser()) main;
