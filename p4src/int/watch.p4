/* Selection of packets for INT: the border of the domain, the watch list, and sampling. */
#ifndef TELEMARK_INT_WATCH_P4
#define TELEMARK_INT_WATCH_P4

#include "hop.p4"
#include "lengths.p4"

// Values of `mode`: what the first switch does with a packet of a watched flow.
const bit<2> EMBED_DATA = 1;          // INT-MD
const bit<2> EMBED_INSTRUCTIONS = 2;  // INT-MX
const bit<2> EXPORT_DATA = 3;         // INT-XD: every switch reports

// Values of `mark`: how a packet is marked as INT.
const bit<2> MARK_DSCP = 0;
const bit<2> MARK_PORT = 1;     // the port in the original UDP header is the mark, with NPT 1
const bit<2> MARK_NEW_UDP = 2;  // the port in an additional UDP header is the mark, with NPT 2
@noWarn("unused") const bit<2> MARK_PROBE = 3;

struct int_watch_t {
    bit<1> is_whole;    // IP packet whose headers are complete (not counting AltMark)
    @field_list(CLONE_FIELDS)
    bit<1> is_full;     // the packet is complete
    @field_list(CLONE_FIELDS)
    bit<1> is_int;      // the packet has valid INT
    bit<1> is_watched;  // the flow of the packet is on the watch list
    bit<1> is_chosen;   // the packet is a sample of its flow
    bit<1> is_report;   // the packet is a report; reports are never reported
    bit<1> is_leaving;  // the egress port leads out of the domain
    bit<2> mode;
    bit<2> mark;
    bit<16> instructions;
    bit<8> hops;  // maximum number of hops
}

// Event counters of a switch.
const bit<32> MALFORMED = 0;       // packets with INT's mark, but wrong lengths, type or version
// packets from outside with the DSCP of INT; the DSCP is cleared
const bit<32> FOREIGN_CLEARED = 1;
// packets from outside with the port or probe marker of INT; dropped
const bit<32> FOREIGN_DROPPED = 2;
const bit<32> NO_ROOM = 3;         // packets that would exceed the MTU of the egress port with INT
const bit<32> NOT_POSSIBLE = 4;    // packets at the source that have no UDP or TCP header
const bit<32> NOT_UNDERSTOOD = 5;  // packets whose instructions contradict the metadata length
const bit<32> HOPS_EXCEEDED = 6;
const bit<32> MTU_EXCEEDED = 7;
const bit<32> INT_EVENTS = 8;

/* Checks packets that are marked as INT. If such a packet comes from outside of the domain, the
 * mark is removed, or the packet is dropped. Inside the domain, INT must be valid. */
control IntBorder(
    inout headers_t hdr, inout int_watch_t watch, out bit<1> is_stopped,
    inout standard_metadata_t standard_metadata) {
    SetDscp() set_dscp;
    counter(INT_EVENTS, CounterType.packets) arriving_events;
    bit<1> from_outside = 0;

    action outside() {
        from_outside = 1;
    }

    // Ports at the border of the domain. These ports do not accept INT from outside.
    table borders {
        key = { standard_metadata.ingress_port: exact; }
        actions = { outside; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action stop_foreign() {
        arriving_events.count(FOREIGN_DROPPED);
        mark_to_drop(standard_metadata);
        is_stopped = 1;
    }

    apply {
        is_stopped = 0;
        // A packet counts as marked even if it ends before the shim.
        bit<6> dscp = hdr.ipv4.isValid() ? hdr.ipv4.dscp : hdr.ipv6.traffic_class[7:2];
        bool is_udp = hdr.ports.isValid() && !hdr.tcp.isValid();
        bool has_port = is_udp && hdr.ports.dst_port == INT_UDP_PORT;
        bool has_fixed_mark = hdr.marker.isValid() || has_port;
        bool is_marked = watch.is_whole == 1 && hdr.ports.isValid()
            && (has_fixed_mark || (dscp & INT_DSCP_MASK) == INT_DSCP);
        if (is_marked) {
            borders.apply();
        }
        if (from_outside == 1) {
            if (has_fixed_mark) {
                stop_foreign();
            } else {
                set_dscp.apply(hdr, 0);
                arriving_events.count(FOREIGN_CLEARED);
            }
        } else if (is_marked) {
            // NPT must state that a UDP port marks INT if, and only if, the packet has this port
            if (hdr.stack.isValid() && hdr.int_header.version == INT_VERSION
                && (hdr.shim.npt == NPT_NONE) != has_port && hdr.shim.npt != NPT_UNDEFINED) {
                watch.is_int = 1;
            } else {
                arriving_events.count(MALFORMED);
            }
        }
    }
}

control IntWatch(
    inout headers_t hdr, inout int_watch_t watch, inout hop_t hop,
    inout standard_metadata_t standard_metadata) {
    IntBorder() border;
    bit<1> is_stopped = 0;
    bit<16> src_port = 0;
    bit<16> dst_port = 0;
    bit<32> share = 0;
    bit<32> report_addr = 0;
    bit<16> report_port = 0;

    /* Sets the node id of the switch, the offset of its clock, and the destination of reports. */
    action set_node(bit<32> node_id, bit<48> offset_us, bit<32> collector, bit<16> port) {
        hop.node_id = node_id;
        hop.offset_us = offset_us;
        report_addr = collector;
        report_port = port;
    }

    table node {
        actions = { set_node; }
        default_action = set_node(0, 0, 0, 0);
    }

    /* On average, samples one of 2^32 / (sampling + 1) packets. */
    action choose(bit<2> mode, bit<16> instructions, bit<32> sampling) {
        watch.is_watched = 1;
        watch.mode = mode;
        watch.instructions = instructions;
        share = sampling;
    }

    action embed_data(bit<16> instructions, bit<8> hops, bit<2> mark, bit<32> sampling) {
        choose(EMBED_DATA, instructions, sampling);
        watch.hops = hops;
        watch.mark = mark;
    }

    action embed_instructions(bit<16> instructions, bit<2> mark, bit<32> sampling) {
        choose(EMBED_INSTRUCTIONS, instructions, sampling);
        watch.mark = mark;
    }

    action export_data(bit<16> instructions, bit<32> sampling) {
        choose(EXPORT_DATA, instructions, sampling);
    }

    // Only drops of the flow's packets are reported.
    action watch_drops() {
        watch.is_watched = 1;
    }

    table int_list {
        key = {
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.ipv4.protocol: ternary;
            src_port: ternary @name("hdr.ports.src_port");
            dst_port: ternary @name("hdr.ports.dst_port");
        }
        actions = { embed_data; embed_instructions; export_data; watch_drops; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    table int_list_ipv6 {
        key = {
            hdr.ipv6.src_addr: ternary;
            hdr.ipv6.dst_addr: ternary;
            hdr.ipv6.next_header: ternary;
            src_port: ternary @name("hdr.ports.src_port");
            dst_port: ternary @name("hdr.ports.dst_port");
        }
        actions = { embed_data; embed_instructions; export_data; watch_drops; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    /* The hashed fields do not change on the path, so all switches sample the same packets. */
    action sample() {
        bit<32> number;
        hash(
            number, HashAlgorithm.crc32, 32w0,
            {
                hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.identification,
                hdr.ipv6.src_addr, hdr.ipv6.dst_addr, hdr.ports.src_port, hdr.ports.dst_port,
                hdr.ports.word
            },
            64w0x100000000);
        watch.is_chosen = number <= share ? 1w1 : 0;
    }

    apply {
        node.apply();
        if (!hdr.altmark.isValid() && (hdr.ipv6.isValid() || (hdr.ipv4.isValid() && hdr.ipv4.ihl == 5)
                || hdr.ipv4_options.isValid())
            && (!hdr.tcp.isValid() || hdr.tcp.data_offset == 5 || hdr.tcp_options.isValid())) {
            watch.is_whole = 1;
            if (standard_metadata.packet_length
                    >= bytes_of_ip(hdr.ipv4, hdr.ipv6) + ETHERNET_BYTES) {
                watch.is_full = 1;
            }
        }
        if (hdr.ports.isValid()) {
            src_port = hdr.ports.src_port;
            dst_port = hdr.ports.dst_port;
            if (hdr.ipv4.dst_addr == report_addr && dst_port == report_port) {
                watch.is_report = 1;
            }
        }
        border.apply(hdr, watch, is_stopped, standard_metadata);
        if (!hdr.shim.isValid() && is_stopped == 0 && watch.is_whole == 1 && watch.is_report == 0) {
            if (hdr.ipv4.isValid()) {
                int_list.apply();
            } else if (hdr.ipv6.isValid()) {
                int_list_ipv6.apply();
            }
            if (watch.mode != 0) {
                if (share == 0xFFFFFFFF) {
                    watch.is_chosen = 1;
                } else {
                    sample();
                }
            }
        }
    }
}

#endif
