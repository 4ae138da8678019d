// The program of a switch without a program (--no-p4): it drops each packet.
#include <core.p4>
#include <v1model.p4>

struct headers_t { }
struct metadata_t { }

parser NoParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t std) {
    state start { transition accept; }
}
control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Drop(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { mark_to_drop(std); }
}
control NoDeparser(packet_out packet, in headers_t hdr) { apply { } }
V1Switch(NoParser(), NoChecksum(), Drop(), Drop(), NoChecksum(), NoDeparser()) main;
