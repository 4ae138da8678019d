/* An INT switch that, as a sink, reports paths of flows by DTA, and not by INT reports. As a source
 * or transit switch, it works like the INT switch. All other reports are INT reports.
 *
 *   ingress   NACKs of translators end here; INT's ingress --> watch: which reports the flow needs
 *   egress    INT's egress --> for packets leaving the domain, the flow's path: is a report due?
 *             --> DTA reports, each in front of a clone, as in a reporter (reporter_send.p4) */
#define INT_MORE_HEADERS \
    readout_write_t readout_write; \
    dta_headers_t dta; \
    dta_t nack_base; \
    nack_t nack;
#define INT_READ_STACK ReadStack.apply(packet, hdr.shim, hdr.int_header, meta.path);
#define INT_READ_UDP meta.udp_port = hdr.ports.dst_port;
#define INT_SINK_SESSION (meta.flow.wanted == 0 ? REPORT_SESSION : NO_CLONE)

#include "reporter_packet.p4"
#include "int_paths.p4"
#include "reporter_ring.p4"
#include "../int/outside.p4"
#include "../int/report.p4"
#include "../int/watch.p4"

struct metadata_t {
    hop_t hop;
    int_watch_t watch;
    int_report_t report;
    @field_list(CLONE_FIELDS)
    bit<8> drop_reason;
    int_path_t path;
    dta_flow_t flow;
    dta_report_t dta_report;
    dta_resend_t resend;
    bit<16> udp_port;  // UDP destination port; 0 if the packet is not UDP
    readout_values_t readout;
}

#include "../int/pipeline.p4"
#include "reporter_send.p4"
#include "reporter_watch.p4"

parser SinkParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    IntParser() int_parser;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_readout_request;
            default: parse_int;
        }
    }

    state parse_readout_request {
        packet.extract(hdr.readout_request);
        transition select(hdr.readout_request.record) {
            WRITE &&& WRITE: parse_readout_write;
            default: accept;
        }
    }

    state parse_readout_write {
        packet.extract(hdr.readout_write);
        transition accept;
    }

    state parse_int {
        int_parser.apply(packet, hdr, meta, standard_metadata);
        transition select(meta.udp_port, hdr.ipv4.isValid(), hdr.shim.isValid()) {
            (NACK_PORT, true, false): parse_nack;
            default: accept;
        }
    }

    state parse_nack {
        packet.extract(hdr.nack_base);
        transition select(hdr.nack_base.version, hdr.nack_base.opcode) {
            (DTA_VERSION, NACK): parse_nack_count;
            default: accept;
        }
    }

    state parse_nack_count {
        packet.extract(hdr.nack);
        transition accept;
    }
}

/* Tracks the path of a packet that leaves the domain here, if its path is known. */
control WatchPath(
    inout headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    NamedOutside() named;
    WatchFlow() watch_flow;

    apply {
        bool is_known = meta.path.is_known == 1;
        if (meta.watch.is_int == 0) {  // a packet that enters and leaves the domain here has no INT
            is_known = meta.watch.is_chosen == 1 && meta.watch.mode == EMBED_DATA;
            meta.path.stack = ABSENT;
        }
        if (is_known) {
            bit<8> protocol;
            bit<16> src_port;
            bit<16> dst_port;
            named.apply(hdr, protocol, src_port, dst_port);
            watch_flow.apply(
                hdr.ipv4, protocol, src_port, dst_port, meta.flow, standard_metadata);
        }
    }
}

control SinkIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ProcessNack() process_nack;
    IntArrival() arrival;
    WatchPath() watch_path;
    ReadoutRequest() readout_request;
    ReadoutWrite() readout_write;
    TranslatorAccess() translator_access;
    ReadoutArrival() readout_arrival;

    apply {
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
            readout_write.apply(hdr.readout_write, meta.readout);
            translator_access.apply(meta.readout);
            readout_arrival.apply(hdr.readout, meta.readout);
        } else {
            bit<32> first = hdr.nack_base.sequence;
            bit<32> missing = hdr.nack.count;
            if (hdr.nack.isValid()) {
                process_nack.apply(hdr.ipv4, first, missing, meta.resend, standard_metadata);
            }
            if (meta.resend.translator == 0) {
                arrival.apply(hdr, meta, standard_metadata);
                watch_path.apply(hdr, meta, standard_metadata);
            }
        }
    }
}

control SinkEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntDeparture(false) departure;
    TrackPath() track_path;
    SendReports() reports;
    ReadoutDeparture() readout_departure;

    apply {
        bool is_clone = meta.dta_report.translator != 0;
        bool is_reported = is_clone || meta.resend.translator != 0;
        if (!is_reported) {
            departure.apply(hdr, meta, standard_metadata);
            if (meta.watch.is_leaving == 1 && meta.flow.wanted != 0 && meta.report.flow == 1) {
                is_reported = true;
                track_path.apply(meta.flow, meta.hop, meta.path, meta.report.congested);
            }
        }
        if (is_reported) {
            reports.apply(
                hdr.dta, meta.flow, meta.dta_report, meta.resend, is_clone, standard_metadata);
        }
        readout_departure.apply(hdr.readout, meta.readout);
    }
}

control SinkDeparser(packet_out packet, in headers_t hdr) {
    EmitReport() emit_report;
    IntDeparser() int_deparser;

    apply {
        emit_report.apply(packet, hdr.dta);
        int_deparser.apply(packet, hdr);
        packet.emit(hdr.nack_base);
        packet.emit(hdr.nack);
    }
}

V1Switch(
    SinkParser(), IntVerifyChecksum(), SinkIngress(), SinkEgress(), IntComputeChecksum(),
    SinkDeparser()) main;
