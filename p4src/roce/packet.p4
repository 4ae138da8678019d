/* Headers in a RoCE switch: those of forwarded packets, of its own requests, and of responses. */
#ifndef TELEMARK_ROCE_PACKET_P4
#define TELEMARK_ROCE_PACKET_P4

#include "../include/readout.p4"
#include "headers.p4"
#include "records.p4"

struct headers_t {
    readout_request_t readout_request;
    readout_write_t readout_write;
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

#endif
