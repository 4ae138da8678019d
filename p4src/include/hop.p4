/* Metadata of a switch about a forwarded packet: ports, queue and times. */
#ifndef TELEMARK_HOP_P4
#define TELEMARK_HOP_P4

#include "headers.p4"

const bit<8> CLONE_FIELDS = 1;  // metadata that the clone of a packet gets

struct hop_t {
    @field_list(CLONE_FIELDS)
    bit<32> node_id;
    @field_list(CLONE_FIELDS)
    bit<9> ingress_port;
    @field_list(CLONE_FIELDS)
    bit<9> egress_port;
    @field_list(CLONE_FIELDS)
    bit<32> latency_us;
    @field_list(CLONE_FIELDS)
    bit<8> queue;
    @field_list(CLONE_FIELDS)
    bit<24> waiting_packets;  // number of packets in the queue when this packet arrived there
    @field_list(CLONE_FIELDS)
    bit<48> ingress_us;  // arrival time on the common clock
    @field_list(CLONE_FIELDS)
    bit<48> egress_us;
    @field_list(CLONE_FIELDS)
    bit<32> utilisation;  // utilisation of the egress port, in millionths of its rate
    bit<48> offset_us;    // time of the common clock minus time of this switch's clock
}

/* Runs at the start of egress. */
control Hop(inout hop_t hop, in standard_metadata_t standard_metadata) {
    apply {
        hop.ingress_port = standard_metadata.ingress_port;
        hop.egress_port = standard_metadata.egress_port;
        hop.latency_us =
            (standard_metadata.egress_global_timestamp
             - standard_metadata.ingress_global_timestamp)[31:0];
        hop.queue = (bit<8>)standard_metadata.priority;
        hop.waiting_packets = (bit<24>)standard_metadata.enq_qdepth;
        hop.ingress_us = standard_metadata.ingress_global_timestamp + hop.offset_us;
        hop.egress_us = standard_metadata.egress_global_timestamp + hop.offset_us;
    }
}

#endif
