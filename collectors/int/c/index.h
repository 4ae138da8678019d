/* Index of flows and of sequence numbers of reports, in bounded memory. */
#ifndef COLLECTORS_INT_INDEX_H
#define COLLECTORS_INT_INDEX_H

#include <stdbool.h>

#include "records.h"

enum {
    PATH_HOPS = 16,      /* maximum number of hops of a stored path */
    /* a datagram may be late if its number is at most this far behind the highest number */
    SEQUENCE_WINDOW = 1024,
    /* a source has restarted if its number is further ahead than this, or behind the window */
    SEQUENCE_JUMP = 65536
};

struct int_statistics {
    uint64_t count;
    int64_t sum, min, max, last;
};

/* A node on a flow's path. */
struct int_path_hop {
    struct int_statistics latency_ns, occupancy;
    /* latency of the link from the previous node; negative values are possible, because of clock
     * offsets */
    struct int_statistics link_ns;
    uint32_t node;
    uint16_t ingress, egress; /* level 1 interfaces; 0 means unknown */
};

struct int_flow {
    struct int_key key;
    uint64_t flow;            /* hash of the flow key, as in reports */
    uint64_t first_ns, last_ns; /* times at which reports arrived */
    uint64_t reports;
    uint64_t congested, dropped; /* number of reports with the flag */
    /* number of packets with a reported path; packets that cannot be distinguished count once per
     * interval */
    uint64_t paths;
    uint64_t partial;         /* number of packets of which only a part of the path was reported */
    uint64_t unmatched;       /* number of reports whose packet is unknown */
    uint64_t changes;         /* number of path changes */
    uint64_t changed_ns;      /* time at which the last path change was detected */
    uint32_t drop_node;       /* node, queue and reason of the last drop */
    uint8_t drop_reason, drop_queue;
    uint16_t hops;
    struct int_path_hop path[PATH_HOPS]; /* nodes of the path; the source is first */
};

/* A source of datagram numbers, which is a hardware subsystem of a node (TR, 3.2). */
struct int_source {
    uint64_t datagrams;
    /* number of missing reports that count as lost: they are too old to arrive */
    uint64_t lost;
    uint64_t missing;    /* number of missing reports that may still arrive */
    uint64_t reordered, duplicates, restarts;
    uint32_t node;
    uint32_t highest;    /* highest sequence number received */
    uint8_t hw_id, version;
    uint8_t none[6];
    /* bitmap of recent numbers; a bit is set if its number has arrived; index: number %
     * SEQUENCE_WINDOW */
    uint64_t received[SEQUENCE_WINDOW / 64];
};

/* Consecutive sequence numbers that did not arrive. */
struct int_gap {
    uint64_t time_ns; /* time after which no packet with these numbers is expected */
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
    uint64_t settle_ns; /* maximum time from the first report of a packet to its other reports */
    uint64_t seed;      /* seed of hashes; senders of reports must not know the seed */
    /* maximum numbers of entries; `events` is the maximum of gaps, and also of changes */
    uint32_t flows, packets, sources, events;
};

/* Overflow counters. */
struct int_index_counters {
    /* numbers of evicted flows, and of the reports in them */
    uint64_t flows_evicted, reports_evicted;
    /* number of packets that were closed early, because too many packets were waiting */
    uint64_t packets_hurried;
    /* number of datagrams whose numbers were not checked, because there were too many sources */
    uint64_t sources_refused;
    /* numbers of gaps and changes that were overwritten before they were read */
    uint64_t gaps_dropped, changes_dropped;
    uint64_t long_paths;      /* number of packets with more than PATH_HOPS hops */
};

#endif
