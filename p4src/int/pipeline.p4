/* Ingress and egress of INT switches. All programs with INT share them.
 *
 * The `struct metadata_t` of a program has the members `hop`, `watch`, `report` and `drop_reason`,
 * as in int.p4. */
#ifndef TELEMARK_INT_PIPELINE_P4
#define TELEMARK_INT_PIPELINE_P4

#include "ingress.p4"
#include "sink.p4"
#include "source.p4"
#include "switch.p4"

// Clone session for packets that leave the domain. A program may define another session, and handle
// its clones. With NO_CLONE, the program itself reports these packets.
const bit<32> NO_CLONE = 0;
#ifndef INT_SINK_SESSION
#define INT_SINK_SESSION REPORT_SESSION
#endif

control IntArrival(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forward() forward;
    IntWatch() watch;
    DropReports(HW_INGRESS, KNOWN_TO_INGRESS) arriving_drops;

    apply {
        forward.apply(hdr, meta.drop_reason, standard_metadata);
        watch.apply(hdr, meta.watch, meta.hop, standard_metadata);
        if (meta.drop_reason != 0) {
            meta.hop.ingress_port = standard_metadata.ingress_port;
            meta.hop.ingress_us =
                standard_metadata.ingress_global_timestamp + meta.hop.offset_us;
            arriving_drops.apply(meta.watch, meta.report);
            if (meta.report.dropped == 1) {
                clone_preserving_field_list(CloneType.I2E, REPORT_SESSION, CLONE_FIELDS);
            }
        }
    }
}

/* INT processing of a packet that is not a clone for a report. */
control IntPacket(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Utilisation() utilisation;
    Hop() hop;
    Source() source;
    Transit() transit;
    Keep() keep;
    Strip() strip;
    FlowReports() flow_reports;
    QueueReports() queue_reports;
    Number() number;
    counter(INT_EVENTS, CounterType.packets) departing_events;
    bit<16> mtu = 0;
    bit<64> parts_a_byte = 0;
    bit<32> event = INT_EVENTS;

    // `millionths_per_byte` is the utilisation by one byte in a window. It is in millionths of the
    // rate of the port, times 2^32; 0 means unknown.
    action stay_inside(bit<16> port_mtu, bit<64> millionths_per_byte) {
        mtu = port_mtu;
        parts_a_byte = millionths_per_byte;
    }

    // The packet leaves the domain with INT.
    action leave_domain(bit<64> millionths_per_byte) {
        meta.watch.is_leaving = 1;
        parts_a_byte = millionths_per_byte;
    }

    table ports {
        key = { standard_metadata.egress_port: exact; }
        actions = { stay_inside; leave_domain; }
        default_action = stay_inside(1500, 0);
        size = 512;
    }

    apply {
        ports.apply();
        utilisation.apply(parts_a_byte, meta.hop, standard_metadata);
        hop.apply(meta.hop, standard_metadata);
        bool is_reported = meta.watch.is_leaving == 1 || hdr.shim.type == INT_MX;
        if (meta.watch.is_int == 1) {
            if (!is_reported) {
                transit.apply(hdr, meta.hop, mtu, event);
            }
        } else if (meta.watch.is_chosen == 1) {
            is_reported = meta.watch.is_leaving == 1 || meta.watch.mode != EMBED_DATA;
            if (meta.watch.is_leaving == 0 && meta.watch.mode != EXPORT_DATA) {
                source.apply(hdr, meta.watch, meta.hop, mtu, event);
            }
        } else {
            is_reported = false;
        }
        if (is_reported) {
            flow_reports.apply(hdr, meta.watch, meta.hop, meta.report);
        }
        if (event != INT_EVENTS) {
            departing_events.count(event);
        }
        if (meta.watch.is_whole == 1 && meta.watch.is_report == 0) {
            queue_reports.apply(meta.report, meta.hop);
        }
        if ((meta.report.flow | meta.report.congested) == 1) {
            meta.report.flow = meta.report.flow | meta.watch.is_watched | meta.watch.is_int;
            meta.report.hw_id = HW_EGRESS;
            if (meta.hop.utilisation == UNKNOWN) {  // 3.3.1: unavailable metadata have no bit
                meta.report.metadata_bits = meta.report.metadata_bits & ~UTILISATION;
            }
            bit<32> session = REPORT_SESSION;
            if (meta.watch.is_leaving == 1) {
                session = INT_SINK_SESSION;
            }
            if (meta.watch.is_leaving == 1 && meta.watch.is_int == 1) {
                keep.apply(hdr);
            }
            if (session == REPORT_SESSION) {
                number.apply(meta.report);
            }
            if (session != NO_CLONE) {
                clone_preserving_field_list(CloneType.E2E, session, CLONE_FIELDS);
            }
        }
        if (meta.watch.is_leaving == 1 && meta.watch.is_int == 1) {
            if (hdr.int_header.discard == 1) {
                mark_to_drop(standard_metadata);
            }
            strip.apply(hdr);
        }
    }
}

/* INT processing of a packet that was deflected because its queue was full. The packet is dropped,
 * and its clone becomes the drop report. */
control IntDeflected(
    inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Hop() hop;
    DropReports(HW_QUEUES, KNOWN_TO_QUEUES) queue_drops;

    apply {
        meta.drop_reason = QUEUE_FULL;
        hop.apply(meta.hop, standard_metadata);
        queue_drops.apply(meta.watch, meta.report);
        if (meta.report.dropped == 1) {
            clone_preserving_field_list(CloneType.E2E, REPORT_SESSION, CLONE_FIELDS);
        }
    }
}

/* Egress of INT. A report is a clone of a packet that was processed before. If reports are grouped,
 * and their clone session leads to the CPU port, the report is recirculated and sent together with
 * other reports. */
control IntDeparture(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata)(
    bool has_groups) {
    IntPacket() packet;
    IntDeflected() deflected;
    PutBack() put_back;
    WriteReport() write_report;
    WriteGroup() write_group;
    WriteOuter() write_outer;

    apply {
        if (standard_metadata.instance_type == INGRESS_CLONE
            || standard_metadata.instance_type == EGRESS_CLONE) {
            if (hdr.kept_shim.isValid()) {
                put_back.apply(hdr);
            }
            write_report.apply(hdr, meta.watch, meta.report, meta.hop, meta.drop_reason);
            if (has_groups && standard_metadata.egress_port == CPU_PORT) {
                meta.report.reported_us = standard_metadata.egress_global_timestamp;
                truncate((bit<32>)meta.report.words << 2);
                recirculate_preserving_field_list(GATHER_FIELDS);
            } else {
                write_group.apply(hdr, meta.report, meta.hop.node_id);
            }
        } else if (standard_metadata.instance_type == DEFLECTED) {
            deflected.apply(meta, standard_metadata);
        } else if (!(has_groups && hdr.report_group.isValid()) && !hdr.readout.isValid()) {
            packet.apply(hdr, meta, standard_metadata);
        }
        if (hdr.report_group.isValid()) {
            write_outer.apply(hdr, meta.report.words);
        }
    }
}

#endif
