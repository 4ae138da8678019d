/* Memory layout of the index. */
#ifndef COLLECTORS_INT_INDEX_INTERNAL_H
#define COLLECTORS_INT_INDEX_INTERNAL_H

#include "decoder.h"
#include "index.h"

static const uint32_t nowhere = 0xffffffff;

/* A flow. It is in a hash chain, and in the list of all flows in the order of last use. */
struct flow_entry {
    struct int_flow flow;
    /* number of flows that have used this entry, including its current flow */
    uint64_t number;
    uint32_t next_in_chain, newer, older;
};

/* A packet about which several nodes send reports. The index waits for further reports. */
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
    uint32_t *flow_chains, flow_mask; /* hash chains; the number of chains is a power of 2 */
    uint32_t flows_used, newest, oldest;
    uint64_t next_number;
    struct pending *pending; /* ring; packets are in the order of their first reports */
    uint32_t *pending_chains, pending_mask;
    uint32_t pending_first, pending_used;
    struct int_source *sources;
    /* hashes of the latest datagrams of each source; 0 means unknown */
    uint16_t (*contents)[SEQUENCE_WINDOW];
    /* hash table with open addressing; entries are never removed */
    uint32_t *source_slots, source_mask;
    uint32_t sources_used;
    struct int_gap *gaps;
    struct int_change *changes;
    uint32_t gaps_used, changes_used;
};

/* A path of a packet, or a part of a path, as reported. */
struct path_report {
    const struct int_hop *hops;
    unsigned count;
    uint64_t time_ns;
    bool is_whole; /* true if this is the complete path */
};

void note_path(struct int_index *index, struct int_flow *flow, struct path_report reported);
void note_interval(struct int_index *index, struct int_flow *flow, struct path_report reported);
void note_unmatched(struct int_flow *flow, struct path_report reported);
void note_partial(struct int_flow *flow, struct path_report reported);
void note_sequence(struct int_index *index, const struct int_group *group);
bool add_pending(struct int_index *index, uint32_t entry, const struct int_report *report,
                 const struct int_hop *hops, bool is_partial);
void settle_until(struct int_index *index, uint64_t now_ns);
bool is_pending(const struct int_index *index, uint32_t entry, uint32_t packet);

#endif
