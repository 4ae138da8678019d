/* Selects the next report about a packet, and the content of this report. A packet may cause
 * several reports. Each report is made from a clone, and the clone is cloned again for the next
 * report. */
#ifndef TELEMARK_DTA_REPORTER_PLAN_P4
#define TELEMARK_DTA_REPORTER_PLAN_P4

#include "reporter_flows.p4"
#include "reporter_ring.p4"

// Each kind of event has its own list.
const bit<2> FLOW_STARTED = 0;
const bit<2> SEGMENT_RESENT = 1;
const bit<2> PACKET_DROPPED = 2;
const bit<2> PATH_CHANGED = 3;

/* Plans the next report that is wanted. If none is wanted, `report.translator` is 0. */
control PlanReport(inout dta_flow_t flow, inout dta_report_t report) {
    bit<2> event = PATH_CHANGED;

    action no_report() {
        report.translator = 0;
    }

    action set_flags(bit<1> immediate, bit<1> retransmittable) {
        report.translator = flow.translator;
        report.immediate = immediate;
        report.retransmittable = retransmittable;
        report.key = flow.key;
    }

    action write_data(
        bit<8> redundancy, bit<8> words, bit<1> immediate, bit<1> retransmittable) {
        set_flags(immediate, retransmittable);
        report.opcode = KEY_WRITE;
        report.detail = redundancy ++ words ++ 16w0;
        report.data = flow.data;
        report.words = words;
    }

    table data_reports {
        actions = { write_data; no_report; }
        default_action = no_report();
    }

    action add(bit<8> redundancy, bit<64> addend, bit<1> immediate, bit<1> retransmittable) {
        set_flags(immediate, retransmittable);
        report.opcode = KEY_INCREMENT;
        report.detail = redundancy ++ 24w0;
        report.data = addend ++ 160w0;
        report.words = 2;
    }

    action count_packets(bit<8> redundancy, bit<1> immediate, bit<1> retransmittable) {
        add(redundancy, 1, immediate, retransmittable);
    }

    action count_bytes(bit<8> redundancy, bit<1> immediate, bit<1> retransmittable) {
        add(redundancy, (bit<64>)flow.packet_bytes, immediate, retransmittable);
    }

    table count_reports {
        actions = { count_packets; count_bytes; no_report; }
        default_action = no_report();
    }

    /* The path fits only if it has at most five hops. */
    action write_postcard(bit<8> redundancy, bit<1> immediate, bit<1> retransmittable) {
        set_flags(immediate, retransmittable);
        report.translator = flow.hop < 5 ? flow.translator : 0;
        report.opcode = POSTCARDING;
        report.detail = redundancy ++ flow.hop ++ flow.hops ++ 8w0;
        report.data = flow.node_id ++ 192w0;
        report.words = 1;
    }

    /* For a path (INT sinks), continues with the previous hop. The node id of this hop is in the
     * third word of the flow's data. */
    action step_back() {
        flow.wanted = flow.wanted | WANT_POSTCARD;
        flow.hop = flow.hop - 1;
        flow.node_id = flow.data[159:128];
        flow.data = flow.data << 32;
    }

    table postcards {
        actions = { write_postcard; no_report; }
        default_action = no_report();
    }

    /* Plans an Append report about the flow. The entry is a 32-bit hash of the key of the flow. */
    action append(bit<8> translator, bit<32> number, bit<1> immediate, bit<1> retransmittable) {
        bit<32> name;
        hash(name, HashAlgorithm.crc32, 32w0, { flow.key }, 64w0x100000000);
        set_flags(immediate, retransmittable);
        report.translator = translator;
        report.opcode = APPEND;
        report.detail = number;
        report.data = name ++ 192w0;
        report.words = 1;
    }

    table event_lists {
        key = { event: exact @name("event"); }
        actions = { append; no_report; }
        default_action = no_report();
        size = 4;
    }

    apply {
        bit<8> before = flow.wanted;
        flow.wanted = before & (before - 1);  // clears the lowest bit that is set
        bit<8> kind = before ^ flow.wanted;
        report.translator = 0;
        if (kind == 0) {
            no_report();
        } else if (kind == WANT_DATA) {
            data_reports.apply();
        } else if (kind == WANT_POSTCARD) {
            postcards.apply();
            if (flow.hops != 0 && flow.hop != 0) {
                step_back();
            }
        } else if (kind == WANT_COUNT) {
            count_reports.apply();
        } else {
            if (kind == WANT_START) {
                event = FLOW_STARTED;
            } else if (kind == WANT_RESENT) {
                event = SEGMENT_RESENT;
            } else if (kind == WANT_DROPPED) {
                event = PACKET_DROPPED;
            }
            event_lists.apply();
        }
    }
}

#endif
