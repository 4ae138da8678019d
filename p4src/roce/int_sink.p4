/* An INT switch that, as a sink, writes records into the memory of a collector by RoCE, and sends
 * no INT reports. A record describes a packet and its path. As a source or transit switch, it works
 * like the INT switch. All other reports are INT reports.
 *
 *   ingress   answers of collectors end here; INT's ingress --> session of the packet's path
 *   egress    INT's egress, where a sink's clone becomes a record (write.p4) */
#define INT_MORE_HEADERS \
    readout_write_t readout_write; \
    grh_t grh; \
    bth_t bth; \
    reth_t reth; \
    atomic_t atomic; \
    immediate_t immediate; \
    aeth_t aeth; \
    atomic_ack_t atomic_ack; \
    flow_record_t flow_record; \
    hop_record_t hop_record; \
    path_record_t path_record; \
    icrc_t icrc;
#define INT_READ_STACK ReadStack.apply(packet, hdr.shim, hdr.int_header, meta.path);
#define INT_READ_UDP meta.udp_port = hdr.ports.dst_port;
#define INT_SINK_SESSION \
    (meta.roce.session == NO_SESSION ? REPORT_SESSION : (bit<32>)meta.roce.session)
#define COVERED_BEHIND path_record
#define COVERED_BEHIND_FIELDS \
    hdr.path_record.hops, hdr.path_record.reserved, hdr.path_record.congested, \
    hdr.path_record.hops_exceeded, hdr.path_record.mtu_exceeded, hdr.path_record.reserved_too, \
    hdr.path_record.stack

#include "headers.p4"
#include "records.p4"
#include "paths.p4"
#include "../int/outside.p4"
#include "../int/report.p4"
#include "../int/watch.p4"
#include "cover.p4"
#include "watch.p4"

struct metadata_t {
    hop_t hop;
    int_watch_t watch;
    int_report_t report;
    @field_list(CLONE_FIELDS)
    bit<8> drop_reason;
    roce_t roce;
    int_path_t path;
    bit<16> udp_port;  // UDP destination port; 0 if the packet is not UDP
    readout_values_t readout;
}

/* Creates a record of the departing packet, of this switch, and of the hops before it. */
control PutRecord(
    inout headers_t hdr, in metadata_t meta, in bit<8> content, inout bit<16> record_bytes) {
    FillFlowRecord() fill_flow;
    FillHopRecord() fill_hop;
    FillPathRecord() fill_path;

    apply {
        hdr.flow_record.setInvalid();
        hdr.hop_record.setInvalid();
        hdr.path_record.setInvalid();
        if (content == FLOW_AND_PATH) {
            if (hdr.inner_ports.isValid()) {  // the TCP sequence numbers are unknown
                fill_flow.apply(hdr.flow_record, hdr.ipv4, hdr.ipv6, hdr.inner_ports, hdr.tcp);
            } else {
                fill_flow.apply(hdr.flow_record, hdr.ipv4, hdr.ipv6, hdr.ports, hdr.tcp);
            }
            fill_hop.apply(hdr.hop_record, meta.hop);
            fill_path.apply(hdr.path_record, meta.path, meta.report.congested);
            record_bytes = FLOW_RECORD_BYTES + HOP_RECORD_BYTES + PATH_RECORD_BYTES;
        }
        hdr.tcp_options.setInvalid();
        hdr.inner_ports.setInvalid();
    }
}

#include "../int/pipeline.p4"
#include "answers.p4"
#include "parser.p4"
#include "write.p4"

parser SinkParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    IntParser() int_parser;
    AnswerParser() answer_parser;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_readout_request;
            default: parse_ethernet;
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

    // RoCEv1 packets have no IP header, so they have no INT.
    state parse_ethernet {
        transition select(packet.lookahead<bit<112>>()[15:0]) {
            ETHERTYPE_ROCE: parse_roce;
            default: parse_int;
        }
    }

    state parse_roce {
        packet.extract(hdr.ethernet);
        transition parse_grh;
    }

    state parse_int {
        int_parser.apply(packet, hdr, meta, standard_metadata);
        transition select(meta.udp_port, hdr.ipv4_options.isValid(), hdr.shim.isValid()) {
            (ROCE_UDP_PORT, false, false): parse_bth;
            default: accept;
        }
    }

    state parse_grh {
        packet.extract(hdr.grh);
        transition select(hdr.grh.next_header) {
            NEXT_HEADER_BTH: parse_bth;
            default: accept;
        }
    }

    state parse_bth {
        answer_parser.apply(packet, hdr.bth, hdr.aeth, hdr.atomic_ack, hdr.icrc);
        transition accept;
    }
}

control SinkIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Answers() answers;
    IntArrival() arrival;
    NamedOutside() named;
    RecordList() recorded;
    ReadoutRequest() readout_request;
    ReadoutWrite() readout_write;
    SessionAccess() session_access;
    ReadoutArrival() readout_arrival;

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
                arrival.apply(hdr, meta, standard_metadata);
                if (meta.watch.is_int == 1 && meta.path.is_known == 1) {
                    bit<8> protocol;
                    bit<16> src_port;
                    bit<16> dst_port;
                    named.apply(hdr, protocol, src_port, dst_port);
                    recorded.apply(hdr, src_port, dst_port, meta.roce, standard_metadata);
                }
            }
        }
    }
}

control SinkEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntDeparture(false) departure;
    WriteRecord() write_record;
    ReadoutDeparture() readout_departure;

    apply {
        // The sink made this clone; it contains stored headers.
        if (standard_metadata.instance_type == EGRESS_CLONE && hdr.kept_shim.isValid()
            && meta.roce.session != NO_SESSION) {
            write_record.apply(hdr, meta, standard_metadata);
        } else {
            departure.apply(hdr, meta, standard_metadata);
        }
        readout_departure.apply(hdr.readout, meta.readout);
    }
}

control SinkDeparser(packet_out packet, in headers_t hdr) {
    IntDeparser() int_deparser;

    apply {
        int_deparser.apply(packet, hdr);
        packet.emit(hdr.grh);
        packet.emit(hdr.bth);
        packet.emit(hdr.reth);
        packet.emit(hdr.atomic);
        packet.emit(hdr.immediate);
        packet.emit(hdr.aeth);
        packet.emit(hdr.atomic_ack);
        packet.emit(hdr.flow_record);
        packet.emit(hdr.hop_record);
        packet.emit(hdr.path_record);
        packet.emit(hdr.icrc);
    }
}

V1Switch(
    SinkParser(), IntVerifyChecksum(), SinkIngress(), SinkEgress(), IntComputeChecksum(),
    SinkDeparser()) main;
