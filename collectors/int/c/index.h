/* Index of flows and of report sequence numbers, in bounded memory. */
#ifndef COLLECTORS_INT_INDEX_H
#define COLLECTORS_INT_INDEX_H

#include <stdbool.h>

#include "records.h"

enum {
    PATH_HOPS = 16,      /* maximum length of a stored path */
    SEQUENCE_WINDOW = 1024, /* maximum distance of a late datagram */
    SEQUENCE_JUMP = 65536   /* a larger distance ahead, or a distance behind beyond the window, is a
                             * restart */
};

struct int_statistics {
    uint64_t count;
    int64_t sum, min, max, last;
};

/* A node on a flow's path. */
struct int_path_hop {
    struct int_statistics latency_ns, occupancy;
    struct int_statistics link_ns; /* from the previous node; negative if clock offsets exceed it */
    uint32_t node;
    uint16_t ingress, egress; /* level 1 interfaces; 0: unknown */
};

struct int_flow {
    struct int_key key;
    uint64_t flow;            /* hash of the key, as in reports */
    uint64_t first_ns, last_ns; /* arrival times of reports */
    uint64_t reports;
    uint64_t congested, dropped; /* reports with this flag */
    uint64_t paths;           /* packets with a reported path; for unmatched packets: intervals */
    uint64_t partial;         /* packets with a partially reported path */
    uint64_t unmatched;       /* reports that cannot be assigned to a packet */
    uint64_t changes;         /* path changes */
    uint64_t changed_ns;      /* time of detection of the last change */
    uint32_t drop_node;       /* last drop */
    uint8_t drop_reason, drop_queue;
    uint16_t hops;
    struct int_path_hop path[PATH_HOPS]; /* source first */
};

/* A source of datagram numbers: a hardware subsystem of a node (TR, 3.2). */
struct int_source {
    uint64_t datagrams;
    uint64_t lost;       /* missing numbers that are too old to arrive */
    uint64_t missing;    /* numbers that may still arrive */
    uint64_t reordered, duplicates, restarts;
    uint32_t node;
    uint32_t highest;    /* highest number so far */
    uint8_t hw_id, version;
    uint8_t none[6];
    uint64_t received[SEQUENCE_WINDOW / 64]; /* one bit for each of the last numbers, at number %
                                              * window */
};

/* Consecutive numbers that did not arrive. */
struct int_gap {
    uint64_t time_ns; /* time when the loss was certain */
    uint32_t node, first, count;
    uint8_t hw_id, version;
    uint8_t none[2];
};

/* A path change. */
struct int_change {
    uint64_t time_ns, flow;
    uint16_t before_hops, after_hops;
    uint32_t before[PATH_HOPS], after[PATH_HOPS]; /* node ids */
    uint8_t none[4];
};

struct int_index_config {
    uint64_t settle_ns; /* maximum time to wait for reports of one packet, from its first report */
    uint64_t seed;      /* hash seed, unknown to senders of reports */
    uint32_t flows, packets, sources, events; /* limits; `events` limits gaps, and also changes */
};

/* Overflow counters. */
struct int_index_counters {
    uint64_t flows_evicted, reports_evicted; /* flows evicted, and their reports */
    uint64_t packets_hurried; /* packets closed early, because there were too many */
    uint64_t sources_refused; /* datagrams with unchecked numbers, because there were too many
                               * sources */
    uint64_t gaps_dropped, changes_dropped; /* events overwritten before they were read */
    uint64_t long_paths;      /* packets with more hops than are stored */
};

#endif
