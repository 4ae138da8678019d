/* Selects the packets that are reported. For a flow, these are all packets, or only packets with
 * changes. In addition, they are packets that arrive when a queue is long (up to a quota), and
 * dropped packets. */
#ifndef TELEMARK_INT_EVENTS_P4
#define TELEMARK_INT_EVENTS_P4

#include "report.p4"
#include "watch.p4"

#define INT_FLOW_CELLS 4096
#define INT_PORTS 512

/* Selects packets of watched flows. If two flows have the same hash, they share a cell. This may
 * cause more reports, but never fewer reports. */
control FlowReports(
    in headers_t hdr, in int_watch_t watch, in hop_t hop, inout int_report_t report) {
    register<bit<32>>(INT_FLOW_CELLS) latest;

    action report_all() {
        report.flow = 1;
    }

    /* Reports a packet if at least one value differs from that of the previous packet of the flow.
     * The values are: the ports at this switch, the number of hops on the stack, the latency under
     * its mask, and the time under its mask. If the time mask has only high bits, there is at least
     * one report per period; for example, 0xFFFFFFF00000 gives one report per second. */
    action report_changes(bit<32> latency_mask, bit<48> time_mask) {
        bit<32> cell;
        bit<32> now;
        bit<32> before;
        bit<32> latency = hop.latency_us & latency_mask;
        bit<48> time = hop.egress_us & time_mask;
        hash(
            cell, HashAlgorithm.crc32, 32w0,
            {
                hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
                hdr.ipv6.src_addr, hdr.ipv6.dst_addr, hdr.ipv6.next_header,
                hdr.ports.src_port, hdr.ports.dst_port
            },
            64w0x100000000);
        hash(
            now, HashAlgorithm.crc32, 32w0,
            {
                cell, 7w0, hop.ingress_port, 7w0, hop.egress_port,
                hdr.shim.length, hdr.int_header.remaining_hops, latency, time
            },
            64w0x100000000);
        now = now | 1;  // never 0, because 0 is the value of an unused register
        bit<32> index = cell & (INT_FLOW_CELLS - 1);
        latest.read(before, index);
        latest.write(index, now);
        report.flow = before != now ? 1w1 : 0;
    }

    table flow_reports {
        actions = { report_all; report_changes; NoAction; }
        default_action = NoAction();
    }

    apply {
        flow_reports.apply();
        report.metadata_bits = watch.instructions;
        if (watch.is_int == 1) {
            report.metadata_bits = hdr.int_header.instructions;
        }
        report.metadata_bits = report.metadata_bits & KNOWN_TO_REPORTS;
    }
}

/* Selects packets of all flows by the occupancy of their queue. If fewer than `calm` packets wait
 * in the queue, the quota is reset. */
control QueueReports(inout int_report_t report, in hop_t hop) {
    register<bit<32>>(INT_PORTS) reported_packets;
    bit<16> instructions = 0;

    action report_queue(bit<24> full, bit<24> calm, bit<32> quota, bit<16> metadata_bits) {
        bit<32> port = (bit<32>)hop.egress_port;
        bit<32> count;
        instructions = metadata_bits & KNOWN_TO_REPORTS;
        reported_packets.read(count, port);
        if (hop.waiting_packets >= full && count < quota) {
            report.congested = 1;
            count = count + 1;
        } else if (hop.waiting_packets < calm) {
            count = 0;
        }
        reported_packets.write(port, count);
    }

    table queue_reports {
        key = { hop.egress_port: exact; }
        actions = { report_queue; NoAction; }
        default_action = NoAction();
        size = INT_PORTS;
    }

    apply {
        queue_reports.apply();
        if (report.congested == 1) {
            report.metadata_bits = report.metadata_bits | instructions;
        }
    }
}

const bit<8> OUT_OF_TIME = 26;
const bit<8> NO_ROUTE = 29;
const bit<8> QUEUE_FULL = 71;
const bit<8> DENIED = 80;
const bit<8> NO_SUCH_MAC = 89;

/* Selects dropped packets that have INT or belong to a watched flow. `known` are the metadata that
 * are available where the drop occurs. The caller clones the packets. */
control DropReports(in int_watch_t watch, inout int_report_t report)(bit<6> hw_id, bit<16> known) {
    Number() number;

    action report_drops(bit<16> metadata_bits) {
        report.dropped = 1;
        report.flow = watch.is_watched | watch.is_int;
        report.hw_id = hw_id;
        report.metadata_bits = (metadata_bits & known) | DROP_REASON;
    }

    table drop_reports {
        actions = { report_drops; NoAction; }
        default_action = NoAction();
    }

    apply {
        if ((watch.is_watched | watch.is_int) == 1) {
            drop_reports.apply();
        }
        if (report.dropped == 1) {
            number.apply(report);
        }
    }
}

#endif
