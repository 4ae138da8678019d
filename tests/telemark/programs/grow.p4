/* Forwards like wire.p4, and makes frames longer or shorter, as INT does. It removes TAKES bytes
 * after the Ethernet header, and inserts PUTS bytes there. */
#include <core.p4>
#include <v1model.p4>

#ifndef TAKES
#define TAKES 0
#endif
#ifndef PUTS
#define PUTS 0
#endif

header ethernet_t {
    bit<112> all;
}

// Headers that together have TAKES or PUTS bytes, because a single field would be too wide.
#define BYTES(N) bit<N> a; bit<N> b; bit<N> c; bit<N> d; bit<N> e; bit<N> f; bit<N> g; bit<N> h;

header taken_t {
#if TAKES
    BYTES(TAKES)
#endif
    bit<8> own; // a byte of the frame itself, because a header cannot be empty
}

header put_t {
#if PUTS
    BYTES(PUTS)
#endif
    bit<8> own;
}

struct headers_t {
    ethernet_t ethernet;
    taken_t taken;
    put_t put;
}

struct metadata_t { }

parser GrowParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.taken);
        transition accept;
    }
}

control GrowVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control GrowIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.taken.isValid()) {
            hdr.put = { own = hdr.taken.own, ... };
            hdr.taken.setInvalid();
        }
        standard_metadata.egress_spec = standard_metadata.ingress_port ^ 3;
    }
}

control GrowEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control GrowCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control GrowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.put);
    }
}

V1Switch(
    GrowParser(), GrowVerify(), GrowIngress(), GrowEgress(), GrowCompute(), GrowDeparser()) main;
