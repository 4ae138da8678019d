/* IOAM, alternate marking and INT in one switch. IPv6 packets may have IOAM, all others INT, and
 * both may have marks of alternate marking in their DSCP. The methods have separate watch lists.
 *
 * IOAM and INT are added before marks are set, and removed before marks are cleared. The hash of
 * hashed marking includes fields that IOAM and INT change (length, UDP checksum). So a flow may use
 * only one of IOAM, INT and hashed marking. Inside a tunnel of IOAM, alternate marking sees the
 * addresses of the tunnel and no ports. */
#include "packet.p4"

#define INT_MORE_HEADERS \
    ioam_options_t ioam; \
    ioam_report_headers_t ioam_report; \
    ioam_kept_t ioam_kept;
#define INT_EMIT_REPORT packet.emit(hdr.ioam_report);
#define INT_EMIT_OPTIONS packet.emit(hdr.ioam);
#define AMPM_IPV6_PROTOCOL(hdr) protocol_behind(hdr.ipv6, hdr.ioam.hop_by_hop)
#include "../int/report.p4"
#include "../int/watch.p4"
#include "../ampm/methods.p4"

struct metadata_t {
    hop_t hop;
    int_watch_t watch;
    int_report_t report;
    @field_list(CLONE_FIELDS)
    bit<8> drop_reason;
    ioam_t ioam;
    watch_t ampm;
    sample_t sample;
    readout_values_t readout;
}

#include "../int/pipeline.p4"
#include "pipeline.p4"

/* Uses the parser of IOAM for IPv6, and that of INT for all other packets and for readouts. */
parser AllParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    IntParser() int_parser;
    IoamParser() ioam_parser;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_int;
            default: select_parser;
        }
    }

    state select_parser {
        transition select(packet.lookahead<ethernet_t>().ether_type) {
            ETHERTYPE_IPV6: parse_ioam;
            default: parse_int;
        }
    }

    state parse_int {
        int_parser.apply(packet, hdr, meta, standard_metadata);
        transition accept;
    }

    state parse_ioam {
        ioam_parser.apply(packet, hdr, meta, standard_metadata);
        transition accept;
    }
}

control AllIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntArrival() arrival;
    IoamArrival() ioam_arrival;
    Watch() watch;
    Methods() methods;
    BlockRecord() block_arrivals;
    PulseRecord() pulse_arrivals;
    SampleRecord() sample_arrivals;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;

    counter(AMPM_CELLS, CounterType.packets_and_bytes) arrivals;

    apply {
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
            if (hdr.ipv6.isValid()) {
                ioam_arrival.apply(hdr, meta, standard_metadata);
            } else {
                arrival.apply(hdr, meta, standard_metadata);
            }
            watch.apply(hdr, meta.ampm, standard_metadata);
            if (meta.ampm.watched == 1) {
                methods.apply(hdr, meta.ampm, meta.sample);
                arrivals.count(meta.ampm.cell);
            }
        }
        block_arrivals.apply(meta.ampm, meta.ampm.now_us, meta.readout);
        pulse_arrivals.apply(meta.ampm, meta.ampm.now_us, meta.readout);
        sample_arrivals.apply(meta.ampm, meta.sample, meta.ampm.now_us, meta.readout);
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

control AllEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntDeparture(false) departure;
    IoamDeparture() ioam_departure;
    BlockRecord() block_departures;
    PulseRecord() pulse_departures;
    SampleRecord() sample_departures;
    LeaveDomain() leave_domain;
    ReadoutDeparture() readout_departure;

    counter(AMPM_CELLS, CounterType.packets_and_bytes) departures;

    apply {
        bit<48> now_us = standard_metadata.egress_global_timestamp + meta.ampm.offset_us;
        if (hdr.ipv6.isValid() && standard_metadata.instance_type != DEFLECTED) {
            ioam_departure.apply(hdr, meta, standard_metadata);
        } else {
            departure.apply(hdr, meta, standard_metadata);
        }
        // deflected packets, and those that IOAM stops, do not depart
        if (standard_metadata.instance_type != DEFLECTED && meta.ioam.is_stopped == 0) {
            block_departures.apply(meta.ampm, now_us, meta.readout);
            pulse_departures.apply(meta.ampm, now_us, meta.readout);
            sample_departures.apply(meta.ampm, meta.sample, now_us, meta.readout);
            if (meta.ampm.watched == 1) {
                departures.count(meta.ampm.cell);
                leave_domain.apply(hdr, meta.ampm);
            }
        }
        readout_departure.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    AllParser(), IntVerifyChecksum(), AllIngress(), AllEgress(), IntComputeChecksum(),
    IntDeparser()) main;
