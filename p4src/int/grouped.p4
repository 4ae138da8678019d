/* The INT switch of int.p4, but with several reports per datagram (grouping.p4). The clone session
 * for reports leads to the CPU port, where reports are recirculated. If it leads to another port,
 * reports are not grouped.
 *
 * This program is separate from int.p4, because its additional headers cost CPU time for every
 * packet. */
#define INT_MORE_HEADERS \
    int_pieces_t gathered_0; \
    int_pieces_t gathered_1; \
    int_pieces_t gathered_2; \
    int_pieces_t gathered_3; \
    int_pieces_t gathered_4; \
    int_pieces_t gathered_5; \
    int_pieces_t gathered_6; \
    int_pieces_t gathered_own;

#include "pieces.p4"
#include "grouping.p4"

struct metadata_t {
    hop_t hop;
    int_watch_t watch;
    int_report_t report;
    @field_list(CLONE_FIELDS)
    bit<8> drop_reason;
    readout_values_t readout;
}

#include "pipeline.p4"

parser GroupedParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    IntParser() int_parser;

    // Recirculated packets have no ingress port. In bmv2, the parser sees an old instance_type for
    // ingress clones, but the right ingress port.
    state start {
        transition select(standard_metadata.instance_type, standard_metadata.ingress_port) {
            (RECIRCULATED, 0): parse_report;
            default: parse_packet;
        }
    }

    state parse_packet {
        int_parser.apply(packet, hdr, meta, standard_metadata);
        transition accept;
    }

    // Extracts a report in pieces, if the report is short enough to wait.
    state parse_report {
        transition select(meta.report.words) {
            0 .. 31: parse_16;
            32 .. LONGEST_WORDS: extract_32;
            default: accept;
        }
    }

    state extract_32 {
        packet.extract(hdr.gathered_own.of_32);
        transition parse_16;
    }

    state parse_16 {
        transition select(meta.report.words[4:4]) {
            1: extract_16;
            default: parse_8;
        }
    }

    state extract_16 {
        packet.extract(hdr.gathered_own.of_16);
        transition parse_8;
    }

    state parse_8 {
        transition select(meta.report.words[3:3]) {
            1: extract_8;
            default: parse_4;
        }
    }

    state extract_8 {
        packet.extract(hdr.gathered_own.of_8);
        transition parse_4;
    }

    state parse_4 {
        transition select(meta.report.words[2:2]) {
            1: extract_4;
            default: parse_2;
        }
    }

    state extract_4 {
        packet.extract(hdr.gathered_own.of_4);
        transition parse_2;
    }

    state parse_2 {
        transition select(meta.report.words[1:1]) {
            1: extract_2;
            default: parse_1;
        }
    }

    state extract_2 {
        packet.extract(hdr.gathered_own.of_2);
        transition parse_1;
    }

    state parse_1 {
        transition select(meta.report.words[0:0]) {
            1: extract_1;
            default: accept;
        }
    }

    state extract_1 {
        packet.extract(hdr.gathered_own.of_1);
        transition accept;
    }
}

control GroupedIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntArrival() arrival;
    Gather() gather;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;

    apply {
        if (standard_metadata.instance_type == RECIRCULATED
            || (hdr.readout_request.isValid() && hdr.readout_request.record == FLUSH_GROUP)) {
            gather.apply(hdr, meta.report, standard_metadata);
        } else if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
            readout_arrival.apply(hdr.readout, meta.readout);
        } else {
            arrival.apply(hdr, meta, standard_metadata);
        }
    }
}

control GroupedEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntDeparture(true) departure;
    ReadoutDeparture() readout_departure;

    apply {
        departure.apply(hdr, meta, standard_metadata);
        readout_departure.apply(hdr.readout, meta.readout);
    }
}

control GroupedDeparser(packet_out packet, in headers_t hdr) {
    IntDeparser() int_deparser;

    apply {
        int_deparser.apply(packet, hdr);
        packet.emit(hdr.gathered_0);
        packet.emit(hdr.gathered_1);
        packet.emit(hdr.gathered_2);
        packet.emit(hdr.gathered_3);
        packet.emit(hdr.gathered_4);
        packet.emit(hdr.gathered_5);
        packet.emit(hdr.gathered_6);
        packet.emit(hdr.gathered_own);
    }
}

V1Switch(
    GroupedParser(), IntVerifyChecksum(), GroupedIngress(), GroupedEgress(), IntComputeChecksum(),
    GroupedDeparser()) main;
