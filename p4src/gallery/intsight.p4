/* IntSight (Marques et al., CoNEXT 2020): packets collect a summary of their path in a header of
 * constant size. The last switch summarizes the packets of each flow and epoch, and reports the
 * epochs in which a queue was long, a flow was suspiciously large, or a flow missed its objective.
 *
 *   first switch   counts the packets and bytes of the flow in this epoch, and inserts the header
 *   each switch    adds its latency to the delay, and sets its bit if the packet met contention or
 *                  if its flow is suspicious
 *   last switch    removes the header and updates the summary of the flow. At the first packet of
 *                  a new epoch, it sends the summary of the previous epoch to the analyzer */
#include "../include/headers.p4"

#ifndef FLOWS
#define FLOWS 8
#endif

const bit<16> ETHERTYPE_TELEMETRY = 0x88B5;  // a local experimental ethertype of IEEE 802
const bit<8> PROTOCOL_REPORT = 224;          // as in the artifact of the paper
const bit<8> EPOCH_SHIFT = 16;       // an epoch has 2^16 us
const bit<32> REPORT_SESSION = 500;  // clone session whose port leads to the analyzer
const bit<32> EGRESS_CLONE = 2;      // value of instance_type in a clone
const bit<8> REPORT_FIELDS = 1;
const bit<32> REPORT_HEADERS_BYTES = 34;  // bytes of the Ethernet and IPv4 headers
const bit<16> REPORT_BYTES = 41;

const bit<4> CONTENTION = 1;  // reasons of a report
const bit<4> SUSPICION = 2;
const bit<4> HIGH_DELAY = 4;
const bit<4> LOW_BANDWIDTH = 8;

header telemetry_t {  // 33 bytes, as in the paper; it follows Ethernet
    bit<32> epoch;
    bit<10> path_source;
    bit<6> path_length;
    bit<16> path_code;   // 0, because the topologies have one path per source and length
    bit<48> contention;  // bit n: contention at the switch after n hops
    bit<48> suspicion;
    bit<32> delay_us;
    bit<32> packets;     // number of packets of the flow in this epoch, at the first switch
    bit<32> bytes;
    bit<8> reserved;
}

header report_t {
    bit<32> epoch;
    bit<16> flow;
    bit<16> path;  // source and length of the path
    bit<48> contention;
    bit<48> suspicion;
    bit<32> late;  // number of late packets
    bit<32> ingress_packets;
    bit<32> ingress_bytes;
    bit<32> egress_packets;
    bit<32> egress_bytes;
    bit<4> reasons;
    bit<4> reserved;
}

struct summary_t {  // summary of a flow in an epoch
    @field_list(REPORT_FIELDS)
    bit<32> epoch;
    @field_list(REPORT_FIELDS)
    bit<16> path;
    @field_list(REPORT_FIELDS)
    bit<48> contention;
    @field_list(REPORT_FIELDS)
    bit<48> suspicion;
    @field_list(REPORT_FIELDS)
    bit<32> late;
    @field_list(REPORT_FIELDS)
    bit<32> ingress_packets;
    @field_list(REPORT_FIELDS)
    bit<32> ingress_bytes;
    @field_list(REPORT_FIELDS)
    bit<32> egress_packets;
    @field_list(REPORT_FIELDS)
    bit<32> egress_bytes;
    @field_list(REPORT_FIELDS)
    bit<4> reasons;
}

struct metadata_t {
    @field_list(REPORT_FIELDS)
    bit<16> flow;
    bit<1> is_first;
    bit<1> is_last;
    bit<32> max_delay_us;  // objectives of the flow; 0 means no objective
    bit<32> min_bytes;
    bit<32> epoch;  // epoch at the first switch
    bit<32> packets;
    bit<32> bytes;
    summary_t summary;
}

struct headers_t {
    ethernet_t ethernet;
    telemetry_t telemetry;
    ipv4_t ipv4;
    report_t report;
}

parser IntSightParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_TELEMETRY: parse_telemetry;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_telemetry {
        packet.extract(hdr.telemetry);
        transition parse_ipv4;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control IntSightVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IntSightIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(FLOWS) epochs;
    register<bit<32>>(FLOWS) packets;
    register<bit<32>>(FLOWS) bytes;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table forwarding {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
    }

    action watch(
        bit<16> flow, bit<1> is_first, bit<1> is_last, bit<32> max_delay_us, bit<32> min_bytes) {
        meta.flow = flow;
        meta.is_first = is_first;
        meta.is_last = is_last;
        meta.max_delay_us = max_delay_us;
        meta.min_bytes = min_bytes;
    }

    table flows {
        key = {
            hdr.ipv4.src_addr: exact;
            hdr.ipv4.dst_addr: exact;
        }
        actions = { watch; NoAction; }
        default_action = NoAction();
    }

    action count() {
        bit<32> last_epoch;
        bit<32> flow = (bit<32>)meta.flow;
        meta.epoch = (standard_metadata.ingress_global_timestamp >> EPOCH_SHIFT)[31:0];
        epochs.read(last_epoch, flow);
        packets.read(meta.packets, flow);
        bytes.read(meta.bytes, flow);
        bool is_new = last_epoch != meta.epoch;
        meta.packets = (is_new ? 0 : meta.packets) + 1;
        meta.bytes =
            (is_new ? 0 : meta.bytes) + ETHERNET_BYTES + (bit<32>)hdr.ipv4.total_length;
        epochs.write(flow, meta.epoch);
        packets.write(flow, meta.packets);
        bytes.write(flow, meta.bytes);
    }

    apply {
        forwarding.apply();
        if (hdr.ipv4.isValid()) {
            flows.apply();
            if (meta.is_first == 1) {
                count();
            }
        }
    }
}

/* Inserts the header at the first switch, and adds the data of this switch. */
control Collect(
    inout headers_t hdr, in metadata_t meta, in standard_metadata_t standard_metadata) {
    bit<10> node = 0;
    bit<32> latency_limit_us = 0;
    bit<19> queue_limit = 0;
    bit<32> bytes_limit = 0;

    action set_node(bit<10> number, bit<32> latency_us, bit<19> queue, bit<32> bytes) {
        node = number;
        latency_limit_us = latency_us;
        queue_limit = queue;
        bytes_limit = bytes;
    }

    table limits {
        actions = { set_node; }
        default_action = set_node(0, 0, 0, 0);
    }

    action insert() {
        hdr.ethernet.ether_type = ETHERTYPE_TELEMETRY;
        hdr.telemetry.setValid();
        hdr.telemetry.epoch = meta.epoch;
        hdr.telemetry.path_source = node;
        hdr.telemetry.path_length = 0;
        hdr.telemetry.path_code = 0;
        hdr.telemetry.contention = 0;
        hdr.telemetry.suspicion = 0;
        hdr.telemetry.delay_us = 0;
        hdr.telemetry.packets = meta.packets;
        hdr.telemetry.bytes = meta.bytes;
        hdr.telemetry.reserved = 0;
    }

    apply {
        limits.apply();
        if (meta.is_first == 1) {
            insert();
        }
        if (hdr.telemetry.isValid()) {
            bit<32> latency_us =
                (standard_metadata.egress_global_timestamp
                 - standard_metadata.ingress_global_timestamp)[31:0];
            bit<48> point = 48w1 << hdr.telemetry.path_length;
            hdr.telemetry.delay_us = hdr.telemetry.delay_us + latency_us;
            if (latency_us >= latency_limit_us || standard_metadata.enq_qdepth >= queue_limit) {
                hdr.telemetry.contention = hdr.telemetry.contention | point;
            }
            if (hdr.telemetry.bytes >= bytes_limit) {
                hdr.telemetry.suspicion = hdr.telemetry.suspicion | point;
            }
            hdr.telemetry.path_length = hdr.telemetry.path_length + 1;
        }
    }
}

/* Updates the summary of the flow. At the first packet of an epoch, `previous` becomes the summary
 * of the previous epoch, and its reasons are those for a report. */
control Summarize(in telemetry_t telemetry, in metadata_t meta, in bit<32> length,
                  inout summary_t previous) {
    register<bit<32>>(FLOWS) epochs;
    register<bit<16>>(FLOWS) paths;
    register<bit<48>>(FLOWS) contentions;
    register<bit<48>>(FLOWS) suspicions;
    register<bit<32>>(FLOWS) late_packets;
    register<bit<32>>(FLOWS) ingress_packets;
    register<bit<32>>(FLOWS) ingress_bytes;
    register<bit<32>>(FLOWS) egress_packets;
    register<bit<32>>(FLOWS) egress_bytes;
    bit<32> flow = (bit<32>)meta.flow;
    summary_t now;

    action read() {
        epochs.read(previous.epoch, flow);
        paths.read(previous.path, flow);
        contentions.read(previous.contention, flow);
        suspicions.read(previous.suspicion, flow);
        late_packets.read(previous.late, flow);
        ingress_packets.read(previous.ingress_packets, flow);
        ingress_bytes.read(previous.ingress_bytes, flow);
        egress_packets.read(previous.egress_packets, flow);
        egress_bytes.read(previous.egress_bytes, flow);
    }

    action write() {
        epochs.write(flow, telemetry.epoch);
        paths.write(flow, telemetry.path_source ++ telemetry.path_length);
        contentions.write(flow, now.contention | telemetry.contention);
        suspicions.write(flow, now.suspicion | telemetry.suspicion);
        late_packets.write(flow, now.late);
        ingress_packets.write(flow, telemetry.packets);
        ingress_bytes.write(flow, telemetry.bytes);
        egress_packets.write(flow, now.egress_packets + 1);
        egress_bytes.write(flow, now.egress_bytes + length);
    }

    action clear() {
        now.contention = 0;
        now.suspicion = 0;
        now.late = 0;
        now.egress_packets = 0;
        now.egress_bytes = 0;
    }

    apply {
        read();
        now = previous;
        previous.reasons = 0;
        if (telemetry.epoch != previous.epoch) {
            clear();
            if (previous.contention != 0) {
                previous.reasons = previous.reasons | CONTENTION;
            }
            if (previous.suspicion != 0) {
                previous.reasons = previous.reasons | SUSPICION;
            }
            if (previous.late != 0) {
                previous.reasons = previous.reasons | HIGH_DELAY;
            }
            if (previous.egress_bytes < meta.min_bytes
                && previous.egress_packets < previous.ingress_packets) {
                previous.reasons = previous.reasons | LOW_BANDWIDTH;
            }
        }
        if (meta.max_delay_us != 0 && telemetry.delay_us >= meta.max_delay_us) {
            now.late = now.late + 1;
        }
        write();
    }
}

control IntSightEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Collect() collect;
    Summarize() summarize;

    action write_report() {
        bit<16> length = 20 + REPORT_BYTES;
        hdr.ipv4.checksum =
            changed_checksum(hdr.ipv4.checksum, hdr.ipv4.total_length, length);
        hdr.ipv4.checksum = changed_checksum(
            hdr.ipv4.checksum, hdr.ipv4.ttl ++ hdr.ipv4.protocol,
            hdr.ipv4.ttl ++ PROTOCOL_REPORT);
        hdr.ipv4.total_length = length;
        hdr.ipv4.protocol = PROTOCOL_REPORT;
        hdr.report.setValid();
        hdr.report.epoch = meta.summary.epoch;
        hdr.report.flow = meta.flow;
        hdr.report.path = meta.summary.path;
        hdr.report.contention = meta.summary.contention;
        hdr.report.suspicion = meta.summary.suspicion;
        hdr.report.late = meta.summary.late;
        hdr.report.ingress_packets = meta.summary.ingress_packets;
        hdr.report.ingress_bytes = meta.summary.ingress_bytes;
        hdr.report.egress_packets = meta.summary.egress_packets;
        hdr.report.egress_bytes = meta.summary.egress_bytes;
        hdr.report.reasons = meta.summary.reasons;
        hdr.report.reserved = 0;
        truncate(REPORT_HEADERS_BYTES + (bit<32>)REPORT_BYTES);
    }

    apply {
        if (standard_metadata.instance_type == EGRESS_CLONE) {
            write_report();
        } else {
            collect.apply(hdr, meta, standard_metadata);
            if (hdr.telemetry.isValid() && meta.is_last == 1) {
                summarize.apply(
                    hdr.telemetry, meta, ETHERNET_BYTES + (bit<32>)hdr.ipv4.total_length,
                    meta.summary);
                hdr.ethernet.ether_type = ETHERTYPE_IPV4;
                hdr.telemetry.setInvalid();
                if (meta.summary.reasons != 0) {
                    clone_preserving_field_list(
                        CloneType.E2E, REPORT_SESSION, REPORT_FIELDS);
                }
            }
        }
    }
}

control IntSightComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IntSightDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.telemetry);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.report);
    }
}

V1Switch(
    IntSightParser(), IntSightVerifyChecksum(), IntSightIngress(), IntSightEgress(),
    IntSightComputeChecksum(), IntSightDeparser()) main;
