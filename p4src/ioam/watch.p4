/* Ingress of IOAM: identity of the node, border of the domain, namespaces and flows. */
#ifndef TELEMARK_IOAM_WATCH_P4
#define TELEMARK_IOAM_WATCH_P4

#include "strip.p4"

#define IOAM_FLOWS 1024

/* Checks packets that enter the domain. Removes IOAM options of packets from outside, or drops the
 * packets. A packet from outside is also dropped if its options cannot be read to the end. */
control IoamBorder(
    inout headers_t hdr, inout ioam_t ioam, inout standard_metadata_t standard_metadata) {
    IoamStrip() strip;
    counter(IOAM_EVENTS, CounterType.packets) ioam_arriving_events;

    action drop_foreign() {
        ioam.from_outside = 1;
    }

    action strip_foreign() {
        ioam.from_outside = 1;
        ioam.strips_foreign = 1;
    }

    // Ports at the border of the domain.
    table ioam_borders {
        key = { standard_metadata.ingress_port: exact; }
        actions = { drop_foreign; strip_foreign; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action stop() {
        ioam_arriving_events.count(IOAM_FOREIGN_DROPPED);
        mark_to_drop(standard_metadata);
        ioam.is_stopped = 1;
    }

    apply {
        ioam_borders.apply();
        if (hdr.ipv6.isValid() && hdr.ipv6.next_header == PROTOCOL_HOP_BY_HOP) {
            if (ioam.from_outside == 1) {
                if (ioam.is_whole == 0
                    || (has_ioam(ioam) && (ioam.strips_foreign == 0 || !can_strip(ioam)))) {
                    stop();
                } else if (has_ioam(ioam)) {
                    strip.apply(hdr, ioam);
                    ioam.ioam_bytes = 0;
                    ioam_arriving_events.count(IOAM_FOREIGN_STRIPPED);
                }
            } else if (ioam.is_whole == 0
                       || (hdr.ioam.trace.isValid() && ioam.trace_fits == 0)) {
                ioam_arriving_events.count(IOAM_MALFORMED);
            }
        }
    }
}

control IoamWatch(
    inout headers_t hdr, inout ioam_t ioam, inout hop_t hop,
    inout standard_metadata_t standard_metadata) {
    IoamBorder() border;
    counter(IOAM_EVENTS, CounterType.packets) namespace_events;
    bit<16> src_port = 0;
    bit<16> dst_port = 0;
    bit<32> word = 0;  // UDP checksum or TCP sequence number
    bit<16> export_namespace = 0;
    bit<32> share = 0;

    /* Sets the ids of the node, and the offset of its clock. */
    action set_ioam_node(bit<24> node_id, bit<56> node_wide, bit<64> offset_us) {
        hop.node_id = (bit<32>)node_id;
        ioam.node_wide = node_wide;
        ioam.offset_us = offset_us;
    }

    table ioam_node {
        actions = { set_ioam_node; }
        default_action = set_ioam_node(0xFFFFFF, 0xFFFFFFFFFFFFFF, 0);
    }

    action join(bit<32> data, bit<64> data_wide) {
        ioam.is_known = 1;
        ioam.namespace_data = data;
        ioam.namespace_data_wide = data_wide;
    }

    // Namespaces of trace options. Options of other namespaces pass unchanged.
    table namespaces {
        key = { ioam.namespace_id: exact; }
        actions = { join; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action join_export(bit<32> data, bit<64> data_wide) {
        ioam.exports = 1;
        if (ioam.is_known == 0) {
            ioam.namespace_data = data;
            ioam.namespace_data_wide = data_wide;
        }
    }

    // Namespaces of DEX options.
    table export_namespaces {
        key = { export_namespace: exact @name("export_namespace_id"); }
        actions = { join_export; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    /* On average, samples one of 2^32 / (sampling + 1) packets. */
    action choose(bit<32> flow, bit<16> namespace_id, bit<24> trace_type, bit<32> sampling) {
        ioam.flow = flow;
        ioam.namespace_id = namespace_id;
        ioam.trace_type = trace_type;
        share = sampling;
    }

    /* Inserts a trace option, and an E2E option if `e2e_type` is not 0. `words` is the length of
     * the node data list, or the maximum length in an incremental option. */
    action insert_trace(
        bit<32> flow, bit<16> namespace_id, bit<24> trace_type, bit<8> option, bit<8> words,
        bit<1> active, bit<1> loopback, bit<16> e2e_type, bit<32> sampling) {
        choose(flow, namespace_id, trace_type, sampling);
        ioam.has_trace = 1;
        ioam.trace_option = option;
        ioam.trace_words = words;
        ioam.active = active;
        ioam.loopback = loopback;
        ioam.e2e_type = e2e_type;
    }

    /* Inserts a DEX option, and an E2E option if `e2e_type` is not 0. */
    action insert_direct_export(
        bit<32> flow, bit<16> namespace_id, bit<24> trace_type, bit<8> extensions,
        bit<16> e2e_type, bit<32> sampling) {
        choose(flow, namespace_id, trace_type, sampling);
        ioam.has_dex = 1;
        ioam.dex_extensions = extensions;
        ioam.e2e_type = e2e_type;
    }

    action insert_edge_to_edge(
        bit<32> flow, bit<16> namespace_id, bit<16> e2e_type, bit<32> sampling) {
        choose(flow, namespace_id, 0, sampling);
        ioam.e2e_type = e2e_type;
    }

    table flows {
        key = {
            hdr.ipv6.src_addr: ternary;
            hdr.ipv6.dst_addr: ternary;
            hdr.ipv6.next_header: ternary;
            src_port: ternary @name("hdr.ports.src_port");
            dst_port: ternary @name("hdr.ports.dst_port");
        }
        actions = { insert_trace; insert_direct_export; insert_edge_to_edge; NoAction; }
        default_action = NoAction();
        size = IOAM_FLOWS;
    }

    /* The packets of this flow get an outer IPv6 header (RFC 2473). */
    action begin_tunnel(bit<128> src_addr, bit<128> dst_addr) {
        ioam.has_tunnel = 1;
        ioam.tunnel_src = src_addr;
        ioam.tunnel_dst = dst_addr;
    }

    table tunnels {
        key = { ioam.flow: exact; }
        actions = { begin_tunnel; NoAction; }
        default_action = NoAction();
        size = IOAM_FLOWS;
    }

    action end_tunnel(bit<1> reports) {
        ioam.ends_tunnel = 1;
        ioam.reports_tunnel = reports;
    }

    action keep_inside() {
        ioam.is_internal = 1;
    }

    // Addresses of this switch, at which tunnels end and copies come back, and addresses of other
    // switches. Packets to them must not leave the domain.
    table tunnel_ends {
        key = { hdr.ipv6.dst_addr: exact; }
        actions = { end_tunnel; keep_inside; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    /* Samples packets by their headers, including UDP checksums and TCP sequence numbers. Without
     * UDP and TCP, all packets with the same headers are samples, or none is. */
    action sample() {
        bit<32> number;
        hash(
            number, HashAlgorithm.crc32, 32w0,
            {
                hdr.ipv6.src_addr, hdr.ipv6.dst_addr, hdr.ipv6.next_header,
                src_port, dst_port, word
            },
            64w0x100000000);
        ioam.inserts = number <= share ? 1w1 : 0;
    }

    apply {
        ioam_node.apply();
        ioam.back_mac = hdr.ethernet.src_addr;
        border.apply(hdr, ioam, standard_metadata);
        if (ioam.is_stopped == 0 && hdr.ipv6.isValid() && hdr.ipv6.version == 6) {
            if (has_ioam(ioam)) {
                if (ioam.is_whole == 1) {
                    tunnel_ends.apply();
                }
                if (hdr.ioam.trace.isValid()) {
                    ioam.namespace_id = hdr.ioam.trace.namespace_id;
                }
                if (hdr.ioam.dex.isValid()) {
                    export_namespace = hdr.ioam.dex.namespace_id;
                }
            } else {
                if (hdr.ports.isValid()) {
                    src_port = hdr.ports.src_port;
                    dst_port = hdr.ports.dst_port;
                    word = hdr.ports.word;
                }
                if (flows.apply().hit) {
                    if (share == 0xFFFFFFFF) {
                        ioam.inserts = 1;
                    } else {
                        sample();
                    }
                    if (ioam.inserts == 1) {
                        tunnels.apply();
                    }
                    export_namespace = ioam.namespace_id;
                }
            }
            if ((has_ioam(ioam) && hdr.ioam.trace.isValid())
                || (ioam.inserts == 1 && ioam.has_trace == 1)) {
                namespaces.apply();
                if (ioam.is_known == 0) {
                    namespace_events.count(IOAM_UNKNOWN_NAMESPACE);
                }
            }
            if ((has_ioam(ioam) && hdr.ioam.dex.isValid())
                || (ioam.inserts == 1 && ioam.has_dex == 1)) {
                export_namespaces.apply();
            }
            if (ioam.ends_tunnel == 1 && !hdr.inner_ipv6.isValid()) {
                ioam.ends_tunnel = 0;
                // RFC 9322, 4.4: the first node of a copy is the encapsulating node
                if (ioam.is_known == 1 && hdr.ioam.trace.isValid()
                    && hdr.ioam.trace.trace_type == HOP_NODE && hdr.ioam.first.isValid()
                    && hdr.ioam.first.value[23:0] == hop.node_id[23:0]) {
                    ioam.ends_loopback = 1;
                } else {
                    keep_inside();
                }
            }
        }
    }
}

#endif
