/* Bits of a record that the iCRC covers (icrc.p4). A program declares `headers_t` before it
 * includes this file. */
#ifndef TELEMARK_ROCE_COVER_P4
#define TELEMARK_ROCE_COVER_P4

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
