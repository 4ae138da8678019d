/* Parser of IPv6 packets with IOAM. */
#ifndef TELEMARK_IOAM_PARSER_P4
#define TELEMARK_IOAM_PARSER_P4

#include "packet.p4"

// Progress of the parser in a hop-by-hop header.
const bit<3> NO_IOAM_YET = 0;
const bit<3> AFTER_TRACE = 1;
const bit<3> AFTER_E2E = 2;
const bit<3> AFTER_DEX = 3;
const bit<3> AFTER_IOAM = 4;

/* If `is_whole` is not set after the parser, then the packet ended too early, an option was longer
 * than its header, the header was longer than the payload, there were too many options, or a second
 * hop-by-hop header follows. Then the packet passes unchanged. */
parser IoamParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    bit<16> left;   // bytes of the hop-by-hop header that are not yet parsed
    bit<16> bytes;  // length of the current option
    bit<16> words;  // words of the node data list
    bit<16> own;    // words that this node may fill
    bit<16> free;
    bit<3> progress;
    bit<8> next_header;

    state start {
        progress = NO_IOAM_YET;
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_readout_request;
            default: parse_ethernet;
        }
    }

    state parse_readout_request {
        packet.extract(hdr.readout_request);
        transition accept;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        meta.ioam.hop_limit = hdr.ipv6.hop_limit;
        next_header = hdr.ipv6.next_header;
        transition select(hdr.ipv6.version, hdr.ipv6.next_header) {
            (6, PROTOCOL_HOP_BY_HOP): parse_hop_by_hop;
            (6, _): parse_transport;
            default: accept;
        }
    }

    state parse_hop_by_hop {
        packet.extract(hdr.ioam.hop_by_hop);
        next_header = hdr.ioam.hop_by_hop.next_header;
        left = ((bit<16>)hdr.ioam.hop_by_hop.length << 3) + 6;
        transition next_option;
    }

    state next_option {
        transition select(left) {
            0: end_options;
            default: find_option;
        }
    }

    state find_option {
        transition select(packet.lookahead<bit<8>>()) {
            PAD_1: find_pad_1;
            default: find_length;
        }
    }

    state find_pad_1 {
        bytes = 1;
        left = left - 1;
        transition extract_option;
    }

    state find_length {
        bytes = (bit<16>)packet.lookahead<bit<16>>()[7:0] + 2;
        left = left - bytes;
        transition select(left[15:15]) {
            1: accept;  // the option is longer than its header
            default: find_kind;
        }
    }

    state find_kind {
        transition select(packet.lookahead<bit<16>>()) {
            PAD_N ++ 8w0 &&& 0xFF00: extract_option;
            IOAM_CHANGEABLE ++ 8w0: ioam_without_type;  // shorter than its fixed part
            IOAM_CHANGEABLE ++ 8w1: ioam_without_type;
            IOAM_UNCHANGED ++ 8w0: ioam_without_type;
            IOAM_UNCHANGED ++ 8w1: ioam_without_type;
            IOAM_CHANGEABLE ++ 8w0 &&& 0xFF00: find_ioam;
            IOAM_UNCHANGED ++ 8w0 &&& 0xFF00: find_ioam;
            default: other_option;
        }
    }

    state other_option {
        meta.ioam.other_options = meta.ioam.other_options + 1;
        transition extract_option;
    }

    state ioam_without_type {
        meta.ioam.ioam_bytes = meta.ioam.ioam_bytes + bytes;
        transition more_ioam;
    }

    state more_ioam {
        meta.ioam.has_more_ioam = 1;
        transition extract_option;
    }

    // Options that are too short for their type are not processed.
    state find_ioam {
        bit<32> head = packet.lookahead<bit<32>>();
        meta.ioam.ioam_bytes = meta.ioam.ioam_bytes + bytes;
        transition select(progress, head[7:0], head[23:16]) {
            (NO_IOAM_YET, PREALLOCATED, 10 .. 255): find_trace;
            (NO_IOAM_YET, INCREMENTAL, 10 .. 255): find_trace;
            (NO_IOAM_YET, EDGE_TO_EDGE, 6 .. 255): parse_e2e;
            (AFTER_TRACE, EDGE_TO_EDGE, 6 .. 255): parse_e2e;
            (NO_IOAM_YET, DIRECT_EXPORT, 10 .. 255): parse_dex;
            (AFTER_TRACE, DIRECT_EXPORT, 10 .. 255): parse_dex;
            (AFTER_E2E, DIRECT_EXPORT, 10 .. 255): parse_dex;
            default: more_ioam;
        }
    }

    // Nodes must not change an option whose type says that it does not change (RFC 8200, 4.2).
    state find_trace {
        transition select(packet.lookahead<bit<8>>()) {
            IOAM_CHANGEABLE: parse_trace;
            default: more_ioam;
        }
    }

    state extract_option {
        transition select(progress) {
            NO_IOAM_YET: extract_before;
            default: extract_after;
        }
    }

    state extract_before {
        packet.extract(hdr.ioam.before.next, (bit<32>)(bytes - 1) << 3);
        transition next_option;
    }

    state extract_after {
        progress = AFTER_IOAM;
        packet.extract(hdr.ioam.after.next, (bit<32>)(bytes - 1) << 3);
        transition next_option;
    }

    state parse_trace {
        progress = AFTER_TRACE;
        packet.extract(hdr.ioam.trace);
        bytes = bytes - (bit<16>)TRACE_OPTION_BYTES;  // of the node data list
        words = bytes >> 2;
        transition select(hdr.ioam.trace.type, bytes[1:0]) {
            (INCREMENTAL, 0): incremental;
            (PREALLOCATED, 0): preallocated;
            default: extract_filled;
        }
    }

    state incremental {
        meta.ioam.trace_fits = 1;
        transition extract_filled;
    }

    state preallocated {
        free = (bit<16>)hdr.ioam.trace.remaining;
        words = words - free;
        transition select(words[15:15]) {
            1: extract_filled;  // more free space than the option has
            default: find_own_part;
        }
    }

    state find_own_part {
        meta.ioam.trace_fits = 1;
        own = (bit<16>)hdr.ioam.trace.node_words
            + (bit<16>)(hdr.ioam.trace.trace_type & OPAQUE)[1:1];
        bytes = words << 2;
        free = free - own;
        transition select(free[15:15]) {
            1: extract_small_space;
            default: extract_space;
        }
    }

    state extract_small_space {
        packet.extract(hdr.ioam.free, (bit<32>)hdr.ioam.trace.remaining << 5);
        transition extract_filled;
    }

    state extract_space {
        packet.extract(hdr.ioam.free, (bit<32>)free << 5);
        packet.extract(hdr.ioam.own, (bit<32>)own << 5);
        transition extract_filled;
    }

    state extract_filled {
        transition select(bytes) {
            0 .. 3: extract_less_than_a_word;
            default: extract_first;
        }
    }

    state extract_less_than_a_word {
        packet.extract(hdr.ioam.filled, (bit<32>)bytes << 3);
        transition end_trace;
    }

    state extract_first {
        packet.extract(hdr.ioam.filled, (bit<32>)(bytes - 4) << 3);
        packet.extract(hdr.ioam.first);
        transition end_trace;
    }

    state end_trace {
        transition select(left) {
            0 .. 3: next_option;
            default: find_trace_pad;
        }
    }

    state find_trace_pad {
        transition select(packet.lookahead<bit<32>>()) {
            PAD_OF_4: extract_trace_pad;
            default: next_option;
        }
    }

    state extract_trace_pad {
        packet.extract(hdr.ioam.trace_pad);
        left = left - 4;
        transition next_option;
    }

    state parse_e2e {
        progress = AFTER_E2E;
        packet.extract(hdr.ioam.e2e);
        packet.extract(hdr.ioam.e2e_data, (bit<32>)(bytes - 8) << 3);
        transition next_option;
    }

    state parse_dex {
        progress = AFTER_DEX;
        packet.extract(hdr.ioam.dex);
        packet.extract(hdr.ioam.dex_data, (bit<32>)(bytes - 12) << 3);
        transition next_option;
    }

    // A second hop-by-hop header (invalid, RFC 8200) could hide options. If the header is longer
    // than the payload, then the switch cannot correct the payload length. This also applies to
    // jumbograms, whose payload length is 0.
    state end_options {
        bytes = ((bit<16>)hdr.ioam.hop_by_hop.length + 1) << 3;
        transition select(next_header, bytes <= hdr.ipv6.payload_length) {
            (PROTOCOL_HOP_BY_HOP, _): accept;
            (_, true): accept_options;
            default: accept;
        }
    }

    state accept_options {
        meta.ioam.is_whole = 1;
        transition parse_transport;
    }

    state parse_transport {
        transition select(next_header) {
            PROTOCOL_UDP: parse_ports;
            PROTOCOL_TCP: parse_ports;
            PROTOCOL_IPV6: parse_inner_ipv6;
            default: accept;
        }
    }

    state parse_inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        transition accept;
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

#endif
