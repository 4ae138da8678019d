/* How the index lies in memory. */
#ifndef COLLECTORS_INT_INDEX_INTERNAL_H
#define COLLECTORS_INT_INDEX_INTERNAL_H

#include "decoder.h"
#include "index.h"

static const uint32_t nowhere = 0xffffffff;

/* A flow in its chain of equal hashes, and in the list of all by when they were last seen. */
struct flow_entry {
    struct int_flow flow;
    uint64_t number; /* of this use of the entry */
    uint32_t next_in_chain, newer, older;
};

/* A packet of which some nodes have told, each by itself. */
struct pending {
    uint64_t flow_number, time_ns;
    uint32_t entry, packet;
    uint32_t next_in_chain;
    uint16_t hops;
    bool is_partial;
    uint8_t ttl[PATH_HOPS];
    struct int_hop hop[PATH_HOPS];
};

struct int_index {
    struct int_index_config config;
    struct int_index_counters counters;
    struct flow_entry *flows;
    uint32_t *flow_chains, flow_mask; /* 2^n chains */
    uint32_t flows_used, newest, oldest;
    uint64_t next_number;
    struct pending *pending; /* a ring, in order of the first report */
    uint32_t *pending_chains, pending_mask;
    uint32_t pending_first, pending_used;
    struct int_source *sources;
    uint16_t (*contents)[SEQUENCE_WINDOW]; /* of each source's last datagrams; 0: not known */
    uint32_t *source_slots, source_mask; /* open addressing: nothing is ever removed */
    uint32_t sources_used;
    struct int_gap *gaps;
    struct int_change *changes;
    uint32_t gaps_used, changes_used;
};

/* The packets that a report tells of are one packet's path, or parts of it. */
struct told {
    const struct int_hop *hops;
    unsigned count;
    uint64_t time_ns;
    bool is_whole; /* the path is neither shorter nor longer than that */
};

void note_path(struct int_index *index, struct int_flow *flow, struct told told);
void note_interval(struct int_index *index, struct int_flow *flow, struct told told);
void note_unmatched(struct int_flow *flow, struct told told);
void note_partial(struct int_flow *flow, struct told told);
void note_sequence(struct int_index *index, const struct int_group *group);
bool add_pending(struct int_index *index, uint32_t entry, const struct int_report *report,
                 const struct int_hop *hops, bool is_partial);
void settle_until(struct int_index *index, uint64_t now_ns);
bool is_pending(const struct int_index *index, uint32_t entry, uint32_t packet);

#endif
