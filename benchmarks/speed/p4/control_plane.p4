/* Forwards all packets from port 1 to port 2, through one large table and an array of counters.
 * MATCH is the match kind of the table. Its entries have counters and idle timeouts. */
#include <core.p4>
#include <v1model.p4>

#ifndef MATCH
#define MATCH lpm
#endif
#define ENTRIES 100000

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> type;
}

header ipv4_t {
    bit<96> first;
    bit<32> src_addr;
    bit<32> dst_addr;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t {
    bit<9> port;
}

parser ControlParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control ControlVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ControlIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) hits;
    counter(ENTRIES, CounterType.packets_and_bytes) cells;
    action note(bit<9> port) {
        meta.port = port;
    }
    table entries {
        key = { hdr.ipv4.dst_addr: MATCH; }
        actions = { note; NoAction; }
        default_action = NoAction();
        counters = hits;
        support_timeout = true;
        size = ENTRIES;
    }
    apply {
        entries.apply();
        cells.count((bit<32>) meta.port);
        standard_metadata.egress_spec = 2;
    }
}

control ControlEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    apply {}
}

control ControlCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ControlDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(ControlParser(), ControlVerify(), ControlIngress(), ControlEgress(), ControlCompute(),
         ControlDeparser()) main;
