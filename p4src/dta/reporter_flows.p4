/* State of each flow in a reporter. It determines when the flow is reported. */
#ifndef TELEMARK_DTA_REPORTER_FLOWS_P4
#define TELEMARK_DTA_REPORTER_FLOWS_P4

#include "reporter_packet.p4"

#define DTA_FLOW_CELLS 4096  // number of cells; a power of two

// Flags of reports. At first, the flags select the reports that the entry of the flow asks for.
// Later, they select those of these reports that must still be sent for the packet.
const bit<8> WANT_START = 0x01;    // Append: the flow is new, or was idle
const bit<8> WANT_RESENT = 0x02;   // Append: a TCP retransmission
const bit<8> WANT_DROPPED = 0x04;  // Append: this switch dropped the packet
const bit<8> WANT_MOVED = 0x08;    // Append: the path changed; INT sinks only
const bit<8> WANT_COUNT = 0x10;    // Key-Increment: per packet, by 1 or by the number of bytes
const bit<8> WANT_DATA = 0x20;     // Key-Write: on changes, and for samples
const bit<8> WANT_POSTCARD = 0x40;  // Postcarding: at the same times as WANT_DATA

struct dta_flow_t {
    @field_list(DTA_FIELDS)
    bit<8> wanted;
    @field_list(DTA_FIELDS)
    bit<128> key;
    @field_list(DTA_FIELDS)
    bit<224> data;
    @field_list(DTA_FIELDS)
    bit<32> packet_bytes;
    @field_list(DTA_FIELDS)
    bit<8> translator;
    @field_list(DTA_FIELDS)
    bit<8> hop;  // number of routers that the packet has passed before
    @field_list(DTA_FIELDS)
    bit<8> hops;  // number of hops of the path; 0 means unknown
    @field_list(DTA_FIELDS)
    bit<32> node_id;  // node id of this switch
    bit<32> tcp_sequence;
    bit<32> tcp_bytes;  // number of bytes in the segment; SYN and FIN count as one byte each
}

/* Stores the state of each flow in a cell. If two flows have the same hash, each flow replaces the
 * other flow, and counts as new at its next packet. So a flow may be reported more often, but never
 * less often. */
@noWarn("unused")
control TrackFlow(inout dta_flow_t flow, in standard_metadata_t standard_metadata) {
    bit<48> offset_us = 0;  // time of the common clock minus time of this switch's clock

    register<bit<128>>(DTA_FLOW_CELLS) keys;
    register<bit<48>>(DTA_FLOW_CELLS) seen_us;
    register<bit<32>>(DTA_FLOW_CELLS) packets;
    register<bit<32>>(DTA_FLOW_CELLS) bytes;
    // the sequence number that follows the last byte that was sent
    register<bit<32>>(DTA_FLOW_CELLS) tcp_next;
    // the record that was last reported, under the mask
    register<bit<224>>(DTA_FLOW_CELLS) last_reported;

    /* The words of the record are: ingress and egress port, packets, bytes, latency, queue and
     * waiting packets, node id, time. `shift` selects the first word that is reported. The record
     * has changed if its value under `mask` is different. A fraction `share` / 2^32 of the packets
     * are samples. A hash of the key and the count selects the samples. */
    action update(
        bit<32> index, bit<32> share, bit<224> mask, bit<8> shift, bit<48> idle_us) {
        bit<32> sample_hash;
        bit<128> key;
        bit<48> last_us;
        bit<32> count;
        bit<32> sum;
        bit<32> next;
        bit<224> before;
        keys.read(key, index);
        seen_us.read(last_us, index);
        packets.read(count, index);
        bytes.read(sum, index);
        tcp_next.read(next, index);
        last_reported.read(before, index);
        bit<48> now_us = standard_metadata.egress_global_timestamp;
        bool is_new = key != flow.key || now_us - last_us >= idle_us;
        count = is_new ? 1 : count + 1;
        sum = is_new ? flow.packet_bytes : sum + flow.packet_bytes;
        bit<32> ahead = flow.tcp_sequence - next;  // values from 2^31 on are negative
        bool is_retransmission = !is_new && flow.tcp_bytes != 0 && ahead[31:31] == 1;
        next = is_new || ahead[31:31] == 0 ? flow.tcp_sequence + flow.tcp_bytes : next;
        hash(sample_hash, HashAlgorithm.crc32, 32w0, { flow.key, count }, 64w0x100000000);
        bit<32> latency_us = (now_us - standard_metadata.ingress_global_timestamp)[31:0];
        flow.data = 7w0 ++ standard_metadata.ingress_port ++ 7w0 ++ standard_metadata.egress_port
            ++ count ++ sum ++ latency_us
            ++ (bit<8>)standard_metadata.priority ++ (bit<24>)standard_metadata.enq_qdepth
            ++ flow.node_id ++ (now_us + offset_us)[31:0];
        bool is_reported =
            is_new || (flow.data & mask) != before || sample_hash < share || share == 0xFFFFFFFF;
        before = is_reported ? flow.data & mask : before;
        flow.data = flow.data << shift;
        flow.wanted = flow.wanted & ~(
            (is_reported ? 8w0 : WANT_DATA | WANT_POSTCARD) | (is_new ? 8w0 : WANT_START)
            | (is_retransmission ? 8w0 : WANT_RESENT) | WANT_DROPPED | WANT_MOVED);
        keys.write(index, flow.key);
        seen_us.write(index, now_us);
        packets.write(index, count);
        bytes.write(index, sum);
        tcp_next.write(index, next);
        last_reported.write(index, before);
    }

    /* The default entry contains the configuration of reports for all flows. */
    action follow(
        bit<32> node, bit<48> clock_offset_us, bit<32> share, bit<224> mask, bit<8> shift,
        bit<48> idle_us) {
        flow.node_id = node;
        offset_us = clock_offset_us;
        bit<32> index;
        hash(index, HashAlgorithm.crc32, 32w0, { flow.key }, (bit<32>)DTA_FLOW_CELLS);
        update(index, share, mask, shift, idle_us);
    }

    table flows {
        actions = { follow; }
        default_action = follow(0, 0, 0, 0, 0, 0xFFFFFFFFFFFF);
    }

    apply {
        flows.apply();
    }
}

#endif
