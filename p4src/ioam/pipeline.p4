/* Ingress and egress of IOAM. All programs with IOAM share them. */
#ifndef TELEMARK_IOAM_PIPELINE_P4
#define TELEMARK_IOAM_PIPELINE_P4

#include "loopback.p4"
#include "parser.p4"
#include "report.p4"
#include "routing.p4"
#include "watch.p4"

control IoamArrival(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IoamWatch() watch;
    IoamForward() forward;

    apply {
        watch.apply(hdr, meta.ioam, meta.hop, standard_metadata);
        if (meta.ioam.is_stopped == 0) {
            forward.apply(hdr, meta.ioam, standard_metadata);
        }
    }
}

/* Removes the outer header of a tunnel. Congestion marks of the outer header are copied to the
 * inner header. If that is not ECN-capable, the packet is dropped (RFC 6040, 4.2). */
control EndTunnel(inout headers_t hdr, inout bit<1> is_stopped) {
    apply {
        bit<2> outer = hdr.ipv6.traffic_class[1:0];
        bit<2> inner = hdr.inner_ipv6.traffic_class[1:0];
        hdr.ipv6 = hdr.inner_ipv6;
        hdr.inner_ipv6.setInvalid();
        if (outer == 3 && inner == 0) {
            is_stopped = 1;
        } else if (outer == 3 || (outer == 1 && inner == 2)) {
            hdr.ipv6.traffic_class[1:0] = outer;
        }
    }
}

/* IOAM processing of a packet that is not a clone for a report. */
control IoamPacket(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Hop() hop;
    InsertOptions() insert_options;
    AddNodeData() add_node_data;
    LoopBack() loop_back;
    IoamKeep() keep;
    PrepareReport() prepare_report;
    IoamStrip() strip;
    EndTunnel() end_tunnel;
    counter(IOAM_EVENTS, CounterType.packets) ioam_departing_events;
    bit<16> mtu = 0;
    bit<1> is_leaving = 0;
    bit<1> reports_leaving = 0;
    bit<32> event = IOAM_EVENTS;

    action keep_ioam(bit<16> port_mtu) {
        mtu = port_mtu;
    }

    /* The packet leaves the domain without IOAM. */
    action remove_ioam(bit<1> reports) {
        is_leaving = 1;
        reports_leaving = reports;
    }

    table ioam_ports {
        key = { standard_metadata.egress_port: exact; }
        actions = { keep_ioam; remove_ioam; }
        default_action = keep_ioam(1500);
        size = 512;
    }

    action set_report(bit<8> option, bit<16> namespace_id, bit<24> trace_type) {
        meta.ioam.report_option = option;
        meta.ioam.report_namespace = namespace_id;
        meta.ioam.report_type = trace_type;
    }

    apply {
        bit<1> is_reported = 0;
        bit<1> has_options = 0;
        ioam_ports.apply();
        hop.apply(meta.hop, standard_metadata);
        meta.ioam.received_us =
            (bit<64>)standard_metadata.ingress_global_timestamp + meta.ioam.offset_us;
        bool ends = is_leaving == 1 || meta.ioam.ends_tunnel == 1 || meta.ioam.ends_loopback == 1;
        bool is_full = standard_metadata.packet_length
            >= (bit<32>)hdr.ipv6.payload_length + 40 + ETHERNET_BYTES;
        if (has_ioam(meta.ioam) && meta.ioam.is_whole == 1) {
            has_options = 1;
            bit<1> reports = is_leaving == 1 ? reports_leaving
                : meta.ioam.reports_tunnel | meta.ioam.ends_loopback;
            if (reports == 1 && meta.ioam.is_known == 1 && hdr.ioam.trace.isValid()) {
                is_reported = 1;
                set_report(hdr.ioam.trace.type, hdr.ioam.trace.namespace_id,
                    hdr.ioam.trace.trace_type);
                if ((bit<8>)hdr.ioam.trace.node_words
                        != node_words(hdr.ioam.trace.trace_type)) {
                    meta.ioam.report_type = 0;
                }
            } else if (meta.ioam.exports == 1 && hdr.ioam.dex.isValid()) {
                set_report(DIRECT_EXPORT, hdr.ioam.dex.namespace_id,
                    hdr.ioam.dex.trace_type);
                is_reported = 1;
            } else if (reports == 1 && hdr.ioam.e2e.isValid()) {
                is_reported = 1;
                set_report(EDGE_TO_EDGE, hdr.ioam.e2e.namespace_id, 0);
            }
            if (!is_full) {
                is_reported = 0;
            }
            if (is_reported == 1) {
                keep.apply(hdr, meta.ioam);
                prepare_report.apply(hdr, meta.ioam);
            }
            if (!ends && meta.ioam.is_known == 1 && meta.ioam.trace_fits == 1) {
                add_node_data.apply(hdr, meta.ioam, meta.hop, mtu, event);
                // A switch makes only one clone of a packet. Without a tunnel, the source address
                // is not that of the encapsulating node (RFC 9322, section 4).
                if (is_reported == 0 && is_full && hdr.ioam.trace.loopback == 1
                    && hdr.inner_ipv6.isValid()
                    && hdr.ioam.trace.trace_type == HOP_NODE) {
                    loop_back.apply(meta.ioam, standard_metadata);
                    if (meta.ioam.is_copy == 1) {
                        ioam_departing_events.count(IOAM_LOOPED_BACK);
                    }
                }
            }
        } else if (meta.ioam.inserts == 1 && is_leaving == 0) {
            insert_options.apply(hdr, meta.ioam, meta.hop, mtu, has_options, event);
            if (has_options == 1 && meta.ioam.exports == 1 && is_full) {
                set_report(DIRECT_EXPORT, meta.ioam.namespace_id, meta.ioam.trace_type);
                is_reported = 1;
                prepare_report.apply(hdr, meta.ioam);
            }
        }
        if (is_reported == 1) {
            clone_preserving_field_list(CloneType.E2E, REPORT_SESSION, CLONE_FIELDS);
        }
        if (ends) {
            if (hdr.ipv6.next_header == PROTOCOL_HOP_BY_HOP
                && (meta.ioam.is_whole == 0 || (has_options == 1 && !can_strip(meta.ioam))
                    || (is_leaving == 1 && meta.ioam.is_internal == 1))) {
                event = IOAM_LEAK_DROPPED;
                meta.ioam.is_stopped = 1;
            } else if (has_options == 1) {
                if (meta.ioam.ends_loopback == 1
                    || (hdr.ioam.trace.isValid() && hdr.ioam.trace.active == 1)) {
                    event = IOAM_TERMINATED;
                    meta.ioam.is_stopped = 1;
                }
                strip.apply(hdr, meta.ioam);
                if (meta.ioam.ends_tunnel == 1) {
                    end_tunnel.apply(hdr, meta.ioam.is_stopped);
                }
            }
        }
        if (meta.ioam.is_stopped == 1) {
            mark_to_drop(standard_metadata);
        }
        if (event != IOAM_EVENTS) {
            ioam_departing_events.count(event);
        }
    }
}

/* Egress of IOAM. A report, or a copy that goes back, is a clone of a packet that was processed
 * before. */
control IoamDeparture(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IoamPacket() packet;
    IoamPutBack() put_back;
    WriteIoamReport() write_report;
    WriteCopy() write_copy;

    apply {
        if (standard_metadata.instance_type == EGRESS_CLONE && meta.ioam.is_copy == 1) {
            write_copy.apply(hdr, meta.ioam);
        } else if (standard_metadata.instance_type == EGRESS_CLONE) {
            if (hdr.ioam_kept.ipv6.isValid()) {
                put_back.apply(hdr);
            }
            write_report.apply(hdr, meta.ioam, meta.hop);
        } else if (hdr.ipv6.isValid() && hdr.ipv6.version == 6) {
            packet.apply(hdr, meta, standard_metadata);
        }
    }
}

#endif
