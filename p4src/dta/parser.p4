/* Parser and deparser of reports over IPv4, and of the responses of collectors.
 *
 * If the UDP length of a report does not fit its opcode, only the base header is parsed. */
#ifndef TELEMARK_DTA_PARSER_P4
#define TELEMARK_DTA_PARSER_P4

#include "../include/allocation.p4"
#include "../roce/parser.p4"
#include "packet.p4"

parser TranslatorParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
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

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_ROCE: parse_grh;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl) {
            5: parse_transport;
            6 .. 15: parse_ipv4_options;
            default: accept;
        }
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl - 5) << 5);
        transition parse_transport;
    }

    state parse_transport {
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.ports);
        transition select(hdr.ports.dst_port, hdr.ipv4.ihl) {
            (ROCE_UDP_PORT, 5): parse_bth;
            (DTA_PORT, _): parse_dta;
            (PROTOTYPE_PORT, _): parse_prototype;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_UDP: parse_udp_ipv6;
            default: accept;
        }
    }

    state parse_udp_ipv6 {
        packet.extract(hdr.ports);
        transition select(hdr.ports.dst_port) {
            ROCE_UDP_PORT: parse_bth;
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

    state parse_dta {
        packet.extract(hdr.dta);
        transition select(hdr.dta.version, hdr.dta.opcode, hdr.ports.word[31:16]) {
            (DTA_VERSION, KEY_WRITE, _): parse_key_write;
            (DTA_VERSION, APPEND, APPEND_LENGTH): parse_append;
            (DTA_VERSION, KEY_INCREMENT, KEY_INCREMENT_LENGTH): parse_key_increment;
            (DTA_VERSION, POSTCARDING, POSTCARD_LENGTH): parse_postcard;
            (DTA_VERSION, SKETCH_MERGE, SKETCH_MERGE_LENGTH): parse_sketch_merge;
            default: accept;
        }
    }

    state parse_key_write {
        packet.extract(hdr.key_write);
        transition select(hdr.key_write.words, hdr.ports.word[31:16]) {
            (1, KEY_WRITE_1_LENGTH): parse_data_1;
            (3, KEY_WRITE_3_LENGTH): parse_data_3;
            (7, KEY_WRITE_7_LENGTH): parse_data_7;
            default: accept;
        }
    }

    state parse_data_1 {
        packet.extract(hdr.data_1);
        transition accept;
    }

    state parse_data_3 {
        packet.extract(hdr.data_3);
        transition accept;
    }

    state parse_data_7 {
        packet.extract(hdr.data_7);
        transition accept;
    }

    state parse_append {
        packet.extract(hdr.append);
        transition accept;
    }

    state parse_key_increment {
        packet.extract(hdr.key_increment);
        transition accept;
    }

    state parse_postcard {
        packet.extract(hdr.postcard);
        transition accept;
    }

    state parse_sketch_merge {
        packet.extract(hdr.sketch_merge);
        transition accept;
    }

    state parse_prototype {
        packet.extract(hdr.prototype);
        transition select(hdr.prototype.opcode, hdr.ports.word[31:16]) {
            (KEY_WRITE, _): parse_short_key_write;
            (APPEND, SHORT_APPEND_LENGTH): parse_append;
            (KEY_INCREMENT, SHORT_KEY_INCREMENT_LENGTH): parse_short_key_increment;
            (POSTCARDING, SHORT_POSTCARD_LENGTH): parse_short_postcard;
            default: accept;
        }
    }

    state parse_short_key_write {
        packet.extract(hdr.short_key_write);
        transition select(hdr.ports.word[31:16]) {
            SHORT_KEY_WRITE_1_LENGTH: parse_data_1;
            SHORT_KEY_WRITE_3_LENGTH: parse_data_3;
            SHORT_KEY_WRITE_7_LENGTH: parse_data_7;
            default: accept;
        }
    }

    state parse_short_key_increment {
        packet.extract(hdr.short_key_increment);
        transition accept;
    }

    state parse_short_postcard {
        packet.extract(hdr.short_postcard);
        transition accept;
    }
}

control TranslatorVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TranslatorComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TranslatorDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

#endif
