/* Record of a packet in the memory of a collector, big-endian. */
#ifndef TELEMARK_ROCE_RECORDS_P4
#define TELEMARK_ROCE_RECORDS_P4

#include "../include/hop.p4"
#include "headers.p4"

header flow_record_t {  // format of Beltman and Knossen; IPv4 addresses as ::ffff:a.b.c.d
    bit<128> src_addr;
    bit<128> dst_addr;
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> tcp_sequence;  // 0 if the packet is not TCP
    bit<32> tcp_acknowledgement;
}

header hop_record_t {  // values as in bits 0 to 5 of INT metadata (docs/reference/int.md)
    bit<32> node_id;
    bit<16> ingress_port;
    bit<16> egress_port;
    bit<32> latency_us;
    bit<8> queue;
    bit<24> waiting_packets;
    bit<64> ingress_us;
    bit<64> egress_us;
}

// Kinds of content of a record.
const bit<8> NO_RECORD = 0;
@noWarn("unused") const bit<8> FLOW = 1;
@noWarn("unused") const bit<8> FLOW_AND_HOP = 2;
@noWarn("unused") const bit<8> FLOW_AND_PATH = 3;  // paths.p4; INT sinks only

const bit<16> FLOW_RECORD_BYTES = 44;
const bit<16> HOP_RECORD_BYTES = 32;

/* Fills the record of a packet. */
control FillFlowRecord(
    inout flow_record_t flow, in ipv4_t ipv4, in ipv6_t ipv6, in ports_t ports, in tcp_t tcp) {
    apply {
        flow.setValid();
        flow.src_addr = 0;
        flow.dst_addr = 0;
        flow.src_port = 0;
        flow.dst_port = 0;
        flow.tcp_sequence = 0;
        flow.tcp_acknowledgement = 0;
        if (ipv4.isValid()) {
            flow.src_addr = IPV4_MAPPED | (bit<128>)ipv4.src_addr;
            flow.dst_addr = IPV4_MAPPED | (bit<128>)ipv4.dst_addr;
        } else if (ipv6.isValid()) {
            flow.src_addr = ipv6.src_addr;
            flow.dst_addr = ipv6.dst_addr;
        }
        if (ports.isValid()) {
            flow.src_port = ports.src_port;
            flow.dst_port = ports.dst_port;
        }
        if (tcp.isValid()) {
            flow.tcp_sequence = ports.word;
            flow.tcp_acknowledgement = tcp.acknowledgement;
        }
    }
}

control FillHopRecord(inout hop_record_t record, in hop_t hop) {
    apply {
        record.setValid();
        record.node_id = hop.node_id;
        record.ingress_port = (bit<16>)hop.ingress_port;
        record.egress_port = (bit<16>)hop.egress_port;
        record.latency_us = hop.latency_us;
        record.queue = hop.queue;
        record.waiting_packets = hop.waiting_packets;
        record.ingress_us = (bit<64>)hop.ingress_us;
        record.egress_us = (bit<64>)hop.egress_us;
    }
}

#endif
