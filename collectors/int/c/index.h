/* What is known of flows and of the sequence of reports, in bounded memory. */
#ifndef COLLECTORS_INT_INDEX_H
#define COLLECTORS_INT_INDEX_H

#include <stdbool.h>

#include "records.h"

enum {
    PATH_HOPS = 16,      /* of a flow's path that are kept */
    SEQUENCE_WINDOW = 1024, /* numbers by which a datagram may be late */
    SEQUENCE_JUMP = 65536   /* a number so far ahead, or further behind than the window: a new beginning */
};

struct int_statistics {
    uint64_t count;
    int64_t sum, least, most, last;
};

/* A node on a flow's path. */
struct int_path_hop {
    struct int_statistics latency_ns, occupancy;
    struct int_statistics link_ns; /* from the node before: negative where clocks differ by more */
    uint32_t node;
    uint16_t ingress, egress; /* level 1 interfaces; 0: not told */
};

struct int_flow {
    struct int_key key;
    uint64_t flow;            /* hash of the key, as reports have it */
    uint64_t first_ns, last_ns; /* when reports came */
    uint64_t reports;
    uint64_t congested, dropped; /* reports that say so */
    uint64_t paths;           /* packets whose path was told; or times, of packets that are unmatched */
    uint64_t partial;         /* packets of whose path parts were missing */
    uint64_t unmatched;       /* reports of which nobody can tell which packet they are of */
    uint64_t changes;         /* of the path */
    uint64_t changed_ns;      /* when the last one was noticed */
    uint32_t drop_node;       /* of the last drop */
    uint8_t drop_reason, drop_queue;
    uint16_t hops;
    struct int_path_hop path[PATH_HOPS]; /* source first */
};

/* Who numbers datagrams: a node's hardware subsystem (TR, 3.2). */
struct int_source {
    uint64_t datagrams;
    uint64_t lost;       /* numbers that did not come, and are too old to come */
    uint64_t missing;    /* that have not come yet */
    uint64_t reordered, duplicates, restarts;
    uint32_t node;
    uint32_t highest;    /* number, so far */
    uint8_t hw_id, version;
    uint8_t none[6];
    uint64_t received[SEQUENCE_WINDOW / 64]; /* a bit for each of the last numbers, at number % window */
};

/* Numbers in a row that did not come. */
struct int_gap {
    uint64_t time_ns; /* when that was certain */
    uint32_t node, first, count;
    uint8_t hw_id, version;
    uint8_t none[2];
};

/* A path that became another. */
struct int_change {
    uint64_t time_ns, flow;
    uint16_t before_hops, after_hops;
    uint32_t before[PATH_HOPS], after[PATH_HOPS]; /* nodes */
    uint8_t none[4];
};

struct int_index_config {
    uint64_t settle_ns; /* for which reports of one packet are waited for, since the first of them */
    uint64_t seed;      /* of hashes, which senders of reports must not know */
    uint32_t flows, packets, sources, events; /* at most: events are gaps, and as many changes */
};

/* What did not fit. */
struct int_index_counters {
    uint64_t flows_evicted, reports_evicted; /* those last seen longest ago, and their reports */
    uint64_t packets_hurried; /* whose reports were not waited for any longer: too many packets */
    uint64_t sources_refused; /* datagrams of which the sequence is not looked at: too many sources */
    uint64_t gaps_dropped, changes_dropped; /* that nobody took in time */
    uint64_t long_paths;      /* packets with more hops than are kept */
};

#endif
