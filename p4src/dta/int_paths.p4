/* Paths of flows, and the conditions under which a path is reported. The paths are read from the
 * INT stacks that a sink removes. Include this file after INT's parser. */
#ifndef TELEMARK_DTA_INT_PATHS_P4
#define TELEMARK_DTA_INT_PATHS_P4

// A hop on the stack has only a node id.
#define PATH_INSTRUCTIONS 0x8000
#define PATH_HOP_LOG 0

#include "../int/paths.p4"
#include "reporter_flows.p4"

const bit<224> CONGESTED = 224w1 << 210;  // flag in the first word of a path

/* Stores the path of each flow in a cell, as TrackFlow does for other data. */
control TrackPath(inout dta_flow_t flow, in hop_t hop, in int_path_t path, in bit<1> congested) {
    register<bit<128>>(DTA_FLOW_CELLS) keys;
    register<bit<224>>(DTA_FLOW_CELLS) last_reported;
    register<bit<48>>(DTA_FLOW_CELLS) reported_us;

    /* The first word of a path has: the number of hops including this switch (8 bits), reserved
     * bits (5), flags (3: congestion of this queue, E and M of the INT header), and reserved bits
     * (16). The other words are node ids: of this switch, and of the five hops before it, newest
     * first. A path is reported when it is new, when the queue reaches the threshold, and once per
     * period. The period is necessary because the collector's memory may be overwritten. */
    action update(bit<32> index, bit<48> period_us) {
        bit<128> key;
        bit<224> before;
        bit<48> last_us;
        keys.read(key, index);
        last_reported.read(before, index);
        reported_us.read(last_us, index);
        flow.hops = path.hops + 1;
        flow.hop = path.hops;
        flow.node_id = hop.node_id;
        flow.data = flow.hops ++ 6w0 ++ path.exceeded ++ 16w0 ++ hop.node_id ++ path.stack;
        bool is_new = key != flow.key;
        bool has_moved = !is_new && flow.data != before;
        bool is_reported =
            is_new || has_moved || congested == 1 || hop.egress_us - last_us >= period_us;
        flow.wanted = flow.wanted & ~(
            (is_reported ? 8w0 : WANT_DATA | WANT_POSTCARD) | (is_new ? 8w0 : WANT_START)
            | (has_moved ? 8w0 : WANT_MOVED) | WANT_RESENT | WANT_DROPPED | WANT_COUNT);
        // A postcard cannot show that hops are missing.
        flow.wanted = flow.wanted & ~(path.exceeded != 0 ? WANT_POSTCARD : 8w0);
        keys.write(index, flow.key);
        last_reported.write(index, flow.data);
        reported_us.write(index, is_reported ? hop.egress_us : last_us);
        flow.data = flow.data | (congested == 1 ? CONGESTED : 224w0);
    }

    action follow(bit<48> period_us) {
        bit<32> index;
        hash(index, HashAlgorithm.crc32, 32w0, { flow.key }, (bit<32>)DTA_FLOW_CELLS);
        update(index, period_us);
    }

    /* The default entry has one parameter: the period after which an unchanged path is reported
     * again. */
    table paths {
        actions = { follow; }
        default_action = follow(0xFFFFFFFFFFFF);
    }

    apply {
        paths.apply();
    }
}

#endif
