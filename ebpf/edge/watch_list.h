/* Watch list of an edge program on a host. It finds the flow of a packet by keys with masks.
 * watch_list.py fills it. */
#ifndef WATCH_LIST_H
#define WATCH_LIST_H

#include "headers.h"

/* the values are the same as in watch_list.py */
#define MAX_FLOWS 1024
#define MAX_MASKS 16

/* Fields that the packets of a flow have in common. In a mask, the bits that are compared are ones.
 * `mask` is the index of the mask. Because of it, two keys with different masks are different. */
struct flow_key {
    __u32 source[4]; /* network byte order; IPv4 addresses as ::ffff:a.b.c.d */
    __u32 destination[4];
    __be16 source_port;
    __be16 destination_port;
    __u8 version;
    __u8 protocol;
    __u16 mask;
    __u32 flow_mon_id; /* from the AltMark option */
};
#define KEY_WORDS (sizeof(struct flow_key) / sizeof(__u32))

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_MASKS);
    __type(key, __u32);
    __type(value, struct flow_key);
} masks SEC(".maps");

struct { /* parameters of the watched flows; each program defines their structure */
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_FLOWS);
    /* if a value is replaced, a running program keeps the old value that it has read */
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct flow_key);
    __type(value, struct watched);
} watched_flows SEC(".maps");

struct { /* number of packets of each kind */
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, KINDS);
    __type(key, __u32);
    __type(value, __u64);
} kinds SEC(".maps");

volatile __u32 masks_used;

static __always_inline void count_kind(__u32 kind)
{
    __u64 *count = bpf_map_lookup_elem(&kinds, &kind);

    if (count)
        (*count)++;
}

static __always_inline void key_of(const struct headers *headers, struct flow_key *key)
{
    __builtin_memset(key, 0, sizeof(*key));
    key->version = headers->version;
    if (headers->version == 4) {
        key->source[2] = key->destination[2] = bpf_htonl(0xffff);
        key->source[3] = headers->ip4.saddr;
        key->destination[3] = headers->ip4.daddr;
    } else {
        __builtin_memcpy(key->source, &headers->ip6.saddr, sizeof(key->source));
        __builtin_memcpy(key->destination, &headers->ip6.daddr, sizeof(key->destination));
    }
    key->protocol = headers->protocol;
    key->source_port = headers->ports.source;
    key->destination_port = headers->ports.destination;
    if (headers->has_altmark)
        key->flow_mon_id = headers->altmark.flow_mon_id[0] << 12 |
                           headers->altmark.flow_mon_id[1] << 4 | headers->altmark.flags >> 4;
}

/* Find the watched flow by tuple space search (Srinivasan et al., SIGCOMM 1999). Each mask in use
 * needs one lookup. As in a ternary table of a switch, the match with the highest priority
 * applies. */
static __always_inline struct watched *watched_by(const struct headers *headers)
{
    union {
        struct flow_key key;
        __u32 words[KEY_WORDS];
    } whole, masked;
    struct watched *best = 0;

    key_of(headers, &whole.key);
    for (__u64 i = 0; i < MAX_MASKS && i < masks_used; i++) {
        /* The verifier of Linux 6.1 does not track the bounds of variables in memory. So only a
         * copy of `i` is in memory. */
        __u32 index = i;
        const __u32 *mask = bpf_map_lookup_elem(&masks, &index);
        struct watched *found;

        if (!mask)
            break;
        for (__u32 word = 0; word < KEY_WORDS; word++)
            masked.words[word] = whole.words[word] & mask[word];
        masked.key.mask = i;
        found = bpf_map_lookup_elem(&watched_flows, &masked.key);
        if (found && (!best || found->priority > best->priority))
            best = found;
    }
    return best;
}

#endif
