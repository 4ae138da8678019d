/* Headers in INT switches: those of include/parser.p4, complete TCP headers, INT after UDP and TCP,
 * and the report around the packet. A program may add headers (INT_MORE_HEADERS). */
#ifndef TELEMARK_INT_PACKET_P4
#define TELEMARK_INT_PACKET_P4

#include "../include/allocation.p4"
#include "../include/readout.p4"
#include "headers.p4"

#ifndef INT_MORE_HEADERS
#define INT_MORE_HEADERS
#endif

struct headers_t {
    INT_MORE_HEADERS
    readout_request_t readout_request;
    readout_t readout;
    // Headers of a report. They precede the reported packet:
    ethernet_t report_ethernet;
    ipv4_t report_ipv4;
    ports_t report_udp;
    report_group_t report_group;
    report_t report;
    int_metadata_t report_metadata;
    int_word_t report_drop;
    // The packet:
    ethernet_t ethernet;
    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    ipv6_t ipv6;
    options_header_t options;
    other_options_t options_before;
    altmark_t altmark;
    other_options_t options_after;
    ipv6_t inner_ipv6;
    ports_t ports;
    tcp_t tcp;
    tcp_options_t tcp_options;
    int_marker_t marker;
    int_shim_t shim;
    int_header_t int_header;
    int_metadata_t metadata;  // metadata that this switch adds to the stack
    // metadata of bits 8 to 14: up to seven words, in which all bits are ones
    int_word_t unknown_1;
    int_long_t unknown_2;
    int_four_words_t unknown_4;
    int_word_t complement;
    int_stack_t stack;
    // With NPT 2, `ports` belong to the UDP header that INT inserted. The next headers are the
    // original ports and, at the source, the rest of the original header:
    ports_t inner_ports;
    tcp_t inner_tcp;
    tcp_options_t inner_tcp_options;
    // Copies of the original headers at a sink. They are for the report, and are not emitted:
    ipv4_t kept_ipv4;
    ipv6_t kept_ipv6;
    ports_t kept_ports;
    tcp_t kept_tcp;
    int_marker_t kept_marker;
    int_shim_t kept_shim;
    int_header_t kept_header;
    int_stack_t kept_stack;
}

#endif
