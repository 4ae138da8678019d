/* The headers of a RoCE switch: of packets that pass, of answers to it, and of what it sends. */
#ifndef TELEMARK_ROCE_PACKET_P4
#define TELEMARK_ROCE_PACKET_P4

#include "../include/readout.p4"
#include "headers.p4"
#include "records.p4"

struct headers_t {
    readout_request_t readout_request;
    readout_t readout;
    ethernet_t ethernet;
    grh_t grh;
    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    ipv6_t ipv6;
    ports_t ports;
    tcp_t tcp;
    bth_t bth;
    reth_t reth;
    atomic_t atomic;
    immediate_t immediate;
    aeth_t aeth;
    atomic_ack_t atomic_ack;
    flow_record_t flow_record;
    hop_record_t hop_record;
    icrc_t icrc;
}

#define COVERED_BITS 1344

control CoverPayload(in headers_t hdr, inout bit<COVERED_BITS> covered) {
    apply {
        if (hdr.flow_record.isValid()) {
            bit<352> flow = hdr.flow_record.src_addr ++ hdr.flow_record.dst_addr
                ++ hdr.flow_record.src_port ++ hdr.flow_record.dst_port
                ++ hdr.flow_record.tcp_sequence ++ hdr.flow_record.tcp_acknowledgement;
            covered = covered[COVERED_BITS - 353:0] ++ flow;
        }
        if (hdr.hop_record.isValid()) {
            bit<256> hop = hdr.hop_record.node_id ++ hdr.hop_record.ingress_port
                ++ hdr.hop_record.egress_port ++ hdr.hop_record.latency_us ++ hdr.hop_record.queue
                ++ hdr.hop_record.waiting_packets ++ hdr.hop_record.ingress_us
                ++ hdr.hop_record.egress_us;
            covered = covered[COVERED_BITS - 257:0] ++ hop;
        }
    }
}

#endif
