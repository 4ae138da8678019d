/* Common part of switches, around ingress and egress: parser, checksums and deparser.
 *
 * A program declares its `struct metadata_t` before it includes this file. Checksums are neither
 * verified nor computed. If a field changes, the program updates the checksum incrementally
 * (changed_checksum). */
#ifndef TELEMARK_SWITCH_P4
#define TELEMARK_SWITCH_P4

#include "parser.p4"

parser SwitchParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    HeadersParser() headers_parser;

    state start {
        headers_parser.apply(packet, hdr, standard_metadata);
        transition accept;
    }
}

control SwitchVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

@noWarn("unused")
control NoEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control SwitchComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    HeadersDeparser() headers_deparser;

    apply {
        headers_deparser.apply(packet, hdr);
    }
}

#endif
