/* NetSeer (Zhou et al., SIGCOMM 2020): reports the events of flows: drops, loss between switches,
 * congestion and path changes.
 *
 * Ports 2 and 3 lead to the other switch, and port 4 leads to the collector of this switch.
 *
 * Loss between switches: a switch numbers the packets to a port in front of the queue, and stores
 * their flows in a ring. The next switch notices a gap in the numbers, and sends a notice back. The
 * first switch then finds the flows of the missing packets in the ring. The number replaces the
 * identification of IPv4, which has no meaning if a packet is not a fragment (RFC 6864).
 *
 * Group caching: a slot has one flow. The first event of the flow is reported immediately. Further
 * events are reported in groups of EVERY events. If another flow takes the slot, an incomplete
 * group is reported, too. So no event is missing, but a flow may be reported several times. */
#include "../include/headers.p4"

#ifndef SLOTS
#define SLOTS 1024  // flows in a group cache
#endif
#ifndef PATHS
#define PATHS 65536  // flows in the table of paths
#endif
#ifndef RING
#define RING 1024  // packets in the ring of a port
#endif
#ifndef EVERY
#define EVERY 1000
#endif
#ifndef CONGESTED_US
#define CONGESTED_US 1000  // a packet that waits longer is an event
#endif

const bit<16> ETHERTYPE_NOTICE = 0x88B5;  // for experiments: IEEE 802, 9.2.4
const bit<16> ETHERTYPE_EVENTS = 0x88B6;
const bit<9> FIRST_LINK = 2;
const bit<9> COLLECTOR = 4;
const bit<32> REPORT_SESSION = 1;
const bit<32> NOTICE_SESSIONS = 10;  // number of a session: NOTICE_SESSIONS plus the port
const bit<32> INGRESS_CLONE = 1;

const bit<8> DROP = 1;
const bit<8> LOSS = 2;
const bit<8> CONGESTION = 3;
const bit<8> PATH = 4;

const bit<8> REPORT_FIELDS = 1;
const bit<8> NOTICE_FIELDS = 2;

header notice_t {
    bit<16> first;  // number of the first missing packet
    bit<16> count;
}

header event_t {
    bit<8> kind;
    bit<104> flow;
    bit<32> count;   // number of packets
    bit<48> detail;  // LOSS: number of the packet; CONGESTION: time in the switch (us); PATH: ports
}

struct headers_t {
    ethernet_t ethernet;
    notice_t notice;
    event_t path;
    event_t event;
    event_t evicted;
    ipv4_t ipv4;
    ports_t ports;
}

struct metadata_t {
    bit<1> is_dropped;
    @field_list(NOTICE_FIELDS)
    bit<16> missing;  // number of a missing packet
    @field_list(NOTICE_FIELDS)
    bit<16> gap;  // number of missing packets from `missing` on
    @field_list(NOTICE_FIELDS)
    bit<32> port;  // ingress port before the packet was resubmitted
    @field_list(REPORT_FIELDS)
    bit<8> kind;  // kind of both `event` and `evicted`
    @field_list(REPORT_FIELDS)
    bit<104> flow;
    @field_list(REPORT_FIELDS)
    bit<32> count;  // 0 means no event
    @field_list(REPORT_FIELDS)
    bit<48> detail;
    @field_list(REPORT_FIELDS)
    bit<104> evicted_flow;
    @field_list(REPORT_FIELDS)
    bit<32> evicted_count;
    @field_list(REPORT_FIELDS)
    bit<48> path;  // 0 means no change
}

parser NetSeerParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_NOTICE: parse_notice;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_ports;
            (5, 0, PROTOCOL_TCP): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }

    state parse_notice {
        packet.extract(hdr.notice);
        transition accept;
    }
}

/* Returns whether a port leads to the other switch. */
bool is_link(in bit<9> port) {
    return port >= FIRST_LINK && port < COLLECTOR;
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

/* Counts an event of meta.flow, and decides whether it is reported now. */
control GroupCache(in bit<8> kind, in bit<48> detail, inout metadata_t meta) {
    register<bit<104>>(SLOTS) flows;  // 0 means an empty slot
    register<bit<32>>(SLOTS) counts;  // number of events that were not reported

    apply {
        bit<32> index;
        bit<104> stored;
        bit<32> count;
        hash(index, HashAlgorithm.crc32, 32w0, { meta.flow }, 64w0 + SLOTS);
        flows.read(stored, index);
        counts.read(count, index);
        if (stored == meta.flow) {
            count = count + 1;
            if (count == EVERY) {
                meta.count = count;
                count = 0;
            }
        } else {
            meta.evicted_flow = stored;
            meta.evicted_count = count;
            meta.count = 1;
            count = 0;
            flows.write(index, meta.flow);
        }
        counts.write(index, count);
        meta.kind = kind;
        meta.detail = detail;
    }
}

control NetSeerIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    GroupCache() losses;
    register<bit<16>>(4) numbers;   // number of the next packet of a port
    register<bit<16>>(4) expected;  // number of the next packet from a port
    register<bit<16>>(4 * RING) ring_numbers;
    register<bit<104>>(4 * RING) ring_flows;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action drop() {
        meta.is_dropped = 1;
        standard_metadata.egress_spec = COLLECTOR;
    }

    table forwarding {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    /* Reports the missing packets one by one. */
    action find_missing() {
        bit<16> stored;
        bit<32> cell = meta.port * RING + (bit<32>)meta.missing % RING;
        ring_numbers.read(stored, cell);
        ring_flows.read(meta.flow, cell);
        meta.flow = stored == meta.missing ? meta.flow : 0;
    }

    action check_number(bit<32> port) {
        expected.read(meta.missing, port);
        meta.gap = hdr.ipv4.identification - meta.missing;
        expected.write(port, hdr.ipv4.identification + 1);
    }

    action take_number(bit<32> port) {
        bit<16> before = hdr.ipv4.identification;
        numbers.read(hdr.ipv4.identification, port);
        numbers.write(port, hdr.ipv4.identification + 1);
        bit<32> cell = port * RING + (bit<32>)hdr.ipv4.identification % RING;
        ring_numbers.write(cell, hdr.ipv4.identification);
        ring_flows.write(cell, meta.flow);
        hdr.ipv4.checksum =
            changed_checksum(hdr.ipv4.checksum, before, hdr.ipv4.identification);
    }

    apply {
        if (hdr.notice.isValid()) {
            if (meta.gap == 0) {  // otherwise, the notice was resubmitted
                meta.port = (bit<32>)standard_metadata.ingress_port;
                meta.missing = hdr.notice.first;
                meta.gap = hdr.notice.count;
            }
            find_missing();
            mark_to_drop(standard_metadata);
            if (meta.flow != 0) {
                losses.apply(LOSS, (bit<48>)meta.missing, meta);
            }
            if (meta.count != 0) {
                clone_preserving_field_list(CloneType.I2E, REPORT_SESSION, REPORT_FIELDS);
            }
            meta.missing = meta.missing + 1;
            meta.gap = meta.gap - 1;
            if (meta.gap != 0) {
                resubmit_preserving_field_list(NOTICE_FIELDS);
            }
        } else if (hdr.ports.isValid()) {
            meta.flow = hdr.ipv4.src_addr ++ hdr.ipv4.dst_addr ++ hdr.ipv4.protocol
                ++ hdr.ports.src_port ++ hdr.ports.dst_port;
            if (is_link(standard_metadata.ingress_port)) {
                check_number((bit<32>)standard_metadata.ingress_port);
                if (meta.gap != 0) {
                    clone_preserving_field_list(
                        CloneType.I2E,
                        NOTICE_SESSIONS + (bit<32>)standard_metadata.ingress_port, NOTICE_FIELDS);
                }
            }
            forwarding.apply();
            if (is_link(standard_metadata.egress_spec)) {
                take_number((bit<32>)standard_metadata.egress_spec);
            }
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control NetSeerEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    GroupCache() drops;
    GroupCache() congestion;
    register<bit<104>>(PATHS) path_flows;
    register<bit<48>>(PATHS) paths;

    action check_path() {
        bit<32> index;
        bit<104> stored;
        bit<48> path;
        bit<48> current =
            (bit<48>)standard_metadata.ingress_port << 16 | (bit<48>)standard_metadata.egress_port;
        hash(index, HashAlgorithm.crc32, 32w0, { meta.flow }, 64w0 + PATHS);
        path_flows.read(stored, index);
        paths.read(path, index);
        meta.path = stored != meta.flow || path != current ? current : 0;
        path_flows.write(index, meta.flow);
        paths.write(index, current);
    }

    action put_notice() {
        hdr.ethernet.ether_type = ETHERTYPE_NOTICE;
        hdr.ipv4.setInvalid();
        hdr.ports.setInvalid();
        hdr.notice.setValid();
        hdr.notice.first = meta.missing;
        hdr.notice.count = meta.gap;
        truncate(18);
    }

    action put_event(inout event_t event, in bit<8> kind, in bit<104> flow, in bit<32> count) {
        event.setValid();
        event.kind = kind;
        event.flow = flow;
        event.count = count;
        event.detail = meta.detail;
    }

    action put_report() {
        hdr.ethernet.ether_type = ETHERTYPE_EVENTS;
        hdr.notice.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.ports.setInvalid();
    }

    apply {
        bool is_report = standard_metadata.egress_port == COLLECTOR;
        if (standard_metadata.instance_type == INGRESS_CLONE && !is_report) {
            put_notice();
        } else if (meta.is_dropped == 1) {
            drops.apply(DROP, 0, meta);
            if (meta.count == 0) {
                mark_to_drop(standard_metadata);
                is_report = false;
            }
        } else if (!is_report) {
            bit<48> time_us = standard_metadata.egress_global_timestamp
                - standard_metadata.ingress_global_timestamp;
            check_path();
            if (time_us > CONGESTED_US) {
                congestion.apply(CONGESTION, time_us, meta);
            }
            if (meta.path != 0 || meta.count != 0) {
                clone_preserving_field_list(CloneType.E2E, REPORT_SESSION, REPORT_FIELDS);
            }
        }
        if (is_report) {
            bit<32> bytes = ETHERNET_BYTES;
            put_report();
            if (meta.path != 0) {
                put_event(hdr.path, PATH, meta.flow, 1);
                hdr.path.detail = meta.path;
                bytes = bytes + 24;
            }
            if (meta.count != 0) {
                put_event(hdr.event, meta.kind, meta.flow, meta.count);
                bytes = bytes + 24;
            }
            if (meta.evicted_count != 0) {
                put_event(hdr.evicted, meta.kind, meta.evicted_flow, meta.evicted_count);
                bytes = bytes + 24;
            }
            truncate(bytes);
        }
    }
}

control NetSeerDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(
    NetSeerParser(), NoChecksum(), NetSeerIngress(), NetSeerEgress(), NoChecksum(),
    NetSeerDeparser()) main;
