/* IOAM headers and metadata of switches.
 *
 * A program declares `struct headers_t` before it includes the other files of this folder. It has
 * the members `ioam`, `ioam_report` and `ioam_kept`, as in ioam.p4, and those of INT switches whose
 * names ioam.p4 also uses. `struct metadata_t` has the members `hop` and `ioam`. */
#ifndef TELEMARK_IOAM_PACKET_P4
#define TELEMARK_IOAM_PACKET_P4

#include "../include/hop.p4"
#include "headers.p4"

#define OPTIONS_BEFORE 4  // maximum number of options before the first IOAM option
#define OPTIONS_AFTER 8

/* Hop-by-hop options header, and outer headers of a tunnel, in the order of the packet. `trace`,
 * `e2e` and `dex` are the IOAM options that switches process: the first trace option, and the E2E
 * option and the DEX option directly after it, in this order. All other options, also other IOAM
 * options, are in `before` and `after`. */
struct ioam_options_t {
    hop_by_hop_t hop_by_hop;
    option_t[OPTIONS_BEFORE] before;
    half_word_t lead;       // inserted: a PadN option of two bytes, which aligns what follows
    trace_option_t trace;
    free_space_t space;     // inserted
    trace_words_t free;     // free space, except for the part of this node
    trace_words_t own;      // the part of the free space that this node may fill
    node_data_t data;       // inserted: data of this node
    trace_words_t filled;   // node data of earlier nodes
    word_t first;           // the end of these data: with HOP_NODE, the data of the first node
    word_t trace_pad;
    e2e_option_t e2e;
    option_data_t e2e_data;
    e2e_data_t new_e2e;     // inserted
    dex_option_t dex;
    option_data_t dex_data;
    word_t new_dex_flow;    // inserted
    word_t new_dex_sequence;
    // Padding in place of IOAM options that were removed, if other options remain:
    byte_t pad_1;
    pad_n_t pad_n;
    byte_t zero_1;
    half_word_t zero_2;
    word_t zero_4;
    option_t[OPTIONS_AFTER] after;
    ipv6_t carried_ipv6;    // the IPv6 header of the packet, behind a new outer header
}

/* Headers of a report. They follow the group header. */
struct ioam_report_headers_t {
    ioam_report_t head;
    node_data_t data;
}

/* Copies of the original headers for the report. They are not emitted. */
struct ioam_kept_t {
    ipv6_t ipv6;
    ioam_options_t options;
    ipv6_t inner_ipv6;
}

struct ioam_t {
    // From the parser:
    bit<1> is_whole;      // the switch can read all options
    bit<1> trace_fits;    // the lengths in the trace option are consistent
    bit<8> other_options; // number of options that are neither IOAM nor padding
    bit<16> ioam_bytes;   // length of all IOAM options
    bit<1> has_more_ioam; // there are IOAM options in `before` or `after`
    // From ingress:
    bit<8> hop_limit;     // as received
    bit<1> from_outside;
    bit<1> strips_foreign;
    bit<1> ends_tunnel;
    bit<1> reports_tunnel;  // the options of the tunnel are reported at its end
    bit<1> is_internal;     // the packet is for another switch of the domain
    bit<1> ends_loopback;   // the packet is a copy that came back
    bit<1> is_stopped;
    @field_list(CLONE_FIELDS)
    bit<48> back_mac;       // source of the frame
    @field_list(CLONE_FIELDS)
    bit<1> is_known;      // the namespace of the trace option is configured
    bit<1> exports;       // the namespace of the DEX option is configured
    @field_list(CLONE_FIELDS)
    bit<32> namespace_data;
    @field_list(CLONE_FIELDS)
    bit<64> namespace_data_wide;
    @field_list(CLONE_FIELDS)
    bit<56> node_wide;
    bit<64> offset_us;    // Unix time minus the time of this switch's clock
    bit<16> namespace_id;
    // Options that this switch inserts:
    bit<1> inserts;
    bit<1> has_trace;
    bit<1> has_dex;
    bit<8> trace_option;  // PREALLOCATED or INCREMENTAL
    bit<8> trace_words;   // node data list of a new option; maximum growth for INCREMENTAL
    bit<1> active;
    bit<1> loopback;
    bit<24> trace_type;
    bit<16> e2e_type;
    bit<8> dex_extensions;
    bit<32> flow;
    bit<1> has_tunnel;
    bit<128> tunnel_src;
    bit<128> tunnel_dst;
    // From egress:
    @field_list(CLONE_FIELDS)
    bit<1> is_copy;         // the clone goes back to the encapsulating node
    @field_list(CLONE_FIELDS)
    bit<128> own_addr;
    @field_list(CLONE_FIELDS)
    bit<64> received_us;  // Unix time
    @field_list(CLONE_FIELDS)
    bit<24> report_type;  // IOAM-Trace-Type of the report
    @field_list(CLONE_FIELDS)
    bit<16> report_namespace;
    @field_list(CLONE_FIELDS)
    bit<8> report_option;
    @field_list(CLONE_FIELDS)
    bit<16> report_bytes;  // length of the packet in the report
    @field_list(CLONE_FIELDS)
    bit<22> report_number;
    @field_list(CLONE_FIELDS)
    bit<8> hop_limit_in_data;
}

// Event counters of a switch.
const bit<32> IOAM_MALFORMED = 0;  // options or lengths that contradict each other; not processed
// packets from outside whose IOAM options were removed
const bit<32> IOAM_FOREIGN_STRIPPED = 1;
const bit<32> IOAM_FOREIGN_DROPPED = 2;
// packets that would leave the domain with unreadable options
const bit<32> IOAM_LEAK_DROPPED = 3;
const bit<32> IOAM_UNKNOWN_NAMESPACE = 4;
const bit<32> IOAM_OVERFLOWED = 5;    // no space for node data; the O flag is set
const bit<32> IOAM_NO_ROOM = 6;       // packets that would exceed the MTU with IOAM
const bit<32> IOAM_NOT_POSSIBLE = 7;  // packets that already have hop-by-hop options
// active measurement packets that ended here, and copies that came back
const bit<32> IOAM_TERMINATED = 8;
const bit<32> IOAM_LOOPED_BACK = 9;   // copies that were sent back
const bit<32> IOAM_EVENTS = 10;

/* Returns the protocol that follows the hop-by-hop header, if there is one, or the IPv6 header. */
@noWarn("unused")
bit<8> protocol_behind(in ipv6_t ipv6, in hop_by_hop_t hop_by_hop) {
    return hop_by_hop.isValid() ? hop_by_hop.next_header : ipv6.next_header;
}

bool has_ioam(in ioam_t ioam) {
    return ioam.ioam_bytes != 0;
}

/* Returns whether IoamStrip can remove the IOAM options of a packet. It cannot, if other options
 * lie between IOAM options that switches do not process. */
bool can_strip(in ioam_t ioam) {
    return ioam.is_whole == 1 && (ioam.other_options == 0 || ioam.has_more_ioam == 0);
}

#endif
