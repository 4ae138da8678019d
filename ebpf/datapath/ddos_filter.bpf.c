// DDoS filter. A rule drops its packets, or passes them. A third kind of rule passes TCP SYNs only
// when they are retransmitted. Each rule counts its packets and bytes. If rules of several kinds
// match, the most specific kind applies: tuples first, then source prefixes, then ports.

#include <linux/bpf.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "chain.h"
#include "openings.h"
#include "packet.h"

// the values are the same as in ddos_filter.py
#define MAX_RULES 65536
#define MAX_MASKS 16
#define BANKS 2

// The fields that a rule compares. In a mask, the bits that are compared are ones. `mask` is the
// index of the mask. Because of it, two tuples with different masks are different keys.
struct tuple {
    __u32 source[4]; // as in struct packet
    __u32 destination[4];
    __be16 source_port;
    __be16 destination_port;
    __u8 protocol;
    __u8 is_fragment;
    __u16 mask;
};
#define TUPLE_WORDS (sizeof(struct tuple) / sizeof(__u32))

// Value of a rule in maps: number of the rule << 2 | XDP_DROP, XDP_PASS or REPEAT; 0 means that
// there is no rule.
typedef __u32 rule_t;
enum { REPEAT = 3 }; // TCP SYNs pass only when they are retransmitted; other packets always pass

struct prefix {
    __u32 length; // bits
    __u32 source[4];
};

struct port_rules { // index 0 is for UDP, index 1 is for TCP
    rule_t source[2];
    rule_t destination[2];
};

// Each map exists twice, once per bank. Packets use one bank. Meanwhile, new rules are written to
// the other bank.
struct masks {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_MASKS);
    __type(key, __u32);
    __type(value, struct tuple);
} masks_0 SEC(".maps"), masks_1 SEC(".maps");

struct tuples {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_RULES);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct tuple);
    __type(value, rule_t);
} tuples_0 SEC(".maps"), tuples_1 SEC(".maps");

struct prefixes {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __uint(max_entries, MAX_RULES);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct prefix);
    __type(value, rule_t);
} prefixes_0 SEC(".maps"), prefixes_1 SEC(".maps");

struct ports {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 65536);
    __type(key, __u32);
    __type(value, struct port_rules);
} ports_0 SEC(".maps"), ports_1 SEC(".maps");

#define BANKS_OF(name)                                                                             \
    struct {                                                                                       \
        __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                                                  \
        __uint(max_entries, BANKS);                                                                \
        __type(key, __u32);                                                                        \
        __array(values, struct name);                                                              \
    } name SEC(".maps") = {.values = {&name##_0, &name##_1}}

BANKS_OF(masks);
BANKS_OF(tuples);
BANKS_OF(prefixes);
BANKS_OF(ports);

// Kinds of rules that the bank contains. Other kinds are not looked up.
volatile struct used {
    __u32 masks;
    __u32 prefixes;
    __u32 ports;
} used[BANKS];
volatile __u32 bank;

struct traffic {
    __u64 packets;
    __u64 bytes;
};

// the index is the number of a rule; there is room for two sets of rules, because one replaces the
// other
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 2 * MAX_RULES);
    __type(key, __u32);
    __type(value, struct traffic);
} hits SEC(".maps");

struct counts {
    __u64 dropped; // dropped by a rule
    __u64 allowed; // passed by a rule
    __u64 unmatched;
    __u64 malformed; // dropped; the kernel would also drop these packets, but later
    __u64 not_ip;
    __u64 forgotten; // SYNs that others replaced in their slot before they were retransmitted
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct counts);
} counts SEC(".maps");

// Find a rule by tuple space search (Srinivasan et al., SIGCOMM 1999). Each mask in use needs one
// lookup.
static __always_inline rule_t by_tuple(__u32 in, __u32 used_masks, const struct packet *packet)
{
    void *masks_in = bpf_map_lookup_elem(&masks, &in);
    void *tuples_in = bpf_map_lookup_elem(&tuples, &in);
    union {
        struct tuple tuple;
        __u32 words[TUPLE_WORDS];
    } whole = {}, key;

    if (!masks_in || !tuples_in)
        return 0;
    __builtin_memcpy(whole.tuple.source, packet->source, sizeof(whole.tuple.source));
    __builtin_memcpy(whole.tuple.destination, packet->destination, sizeof(whole.tuple.destination));
    whole.tuple.source_port = packet->source_port;
    whole.tuple.destination_port = packet->destination_port;
    whole.tuple.protocol = packet->protocol;
    whole.tuple.is_fragment = packet->is_fragment;
    for (__u64 i = 0; i < MAX_MASKS && i < used_masks; i++) {
        // The verifier of Linux 6.1 does not track the bounds of variables in memory. So only a
        // copy of `i` is in memory.
        __u32 index = i;
        const __u32 *mask = bpf_map_lookup_elem(masks_in, &index);
        rule_t *rule;

        if (!mask)
            break;
        for (__u32 word = 0; word < TUPLE_WORDS; word++)
            key.words[word] = whole.words[word] & mask[word];
        key.tuple.mask = i;
        rule = bpf_map_lookup_elem(tuples_in, &key);
        if (rule)
            return *rule;
    }
    return 0;
}

static __always_inline rule_t by_prefix(__u32 in, const struct packet *packet)
{
    struct prefix key = {.length = 128};
    void *prefixes_in = bpf_map_lookup_elem(&prefixes, &in);
    rule_t *rule;

    if (!prefixes_in)
        return 0;
    __builtin_memcpy(key.source, packet->source, sizeof(key.source));
    rule = bpf_map_lookup_elem(prefixes_in, &key);
    return rule ? *rule : 0;
}

static __always_inline rule_t by_port(__u32 in, const struct packet *packet)
{
    __u32 source = bpf_ntohs(packet->source_port);
    __u32 destination = bpf_ntohs(packet->destination_port);
    __u32 is_tcp = packet->protocol == IPPROTO_TCP;
    void *ports_in = bpf_map_lookup_elem(&ports, &in);
    struct port_rules *rules;

    if (!ports_in || (!is_tcp && packet->protocol != IPPROTO_UDP))
        return 0;
    if (!packet->transport_offset) // a fragment other than the first has no ports
        return 0;
    rules = bpf_map_lookup_elem(ports_in, &destination);
    if (rules && rules->destination[is_tcp])
        return rules->destination[is_tcp];
    rules = bpf_map_lookup_elem(ports_in, &source);
    return rules ? rules->source[is_tcp] : 0;
}

static __always_inline rule_t matching(const struct packet *packet)
{
    __u32 in = bank % BANKS;
    __u32 used_masks = used[in].masks, used_prefixes = used[in].prefixes, used_ports = used[in].ports;
    rule_t rule = 0;

    if (used_masks)
        rule = by_tuple(in, used_masks, packet);
    if (!rule && used_prefixes)
        rule = by_prefix(in, packet);
    if (!rule && used_ports)
        rule = by_port(in, packet);
    return rule;
}

static __always_inline bool is_dropped(struct counts *count, rule_t rule,
                                       const struct packet *packet)
{
    if ((rule & 3) == REPEAT)
        return opens(packet) && !is_repeated(packet, &count->forgotten);
    return (rule & 3) == XDP_DROP;
}

static __always_inline int decided(struct counts *count, rule_t rule, const struct packet *packet,
                                   __u32 length)
{
    __u32 number = rule >> 2;
    struct traffic *hit = bpf_map_lookup_elem(&hits, &number);

    if (hit) {
        hit->packets++;
        hit->bytes += length;
    }
    if (is_dropped(count, rule, packet)) {
        count->dropped++;
        return XDP_DROP;
    }
    count->allowed++;
    return XDP_PASS;
}

static __always_inline int filtered(struct xdp_md *context)
{
    void *start = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    __u32 first = 0;
    struct counts *count = bpf_map_lookup_elem(&counts, &first);
    struct packet packet;
    rule_t rule;

    if (!count)
        return XDP_ABORTED; // impossible, because an array always has its first entry
    if (!parse(start, end, &packet)) {
        if (packet.version) {
            count->malformed++;
            return XDP_DROP;
        }
        count->not_ip++;
        return XDP_PASS;
    }
    rule = matching(&packet);
    if (rule)
        return decided(count, rule, &packet, end - start);
    count->unmatched++;
    return XDP_PASS;
}

SEC("xdp")
int ddos_filter(struct xdp_md *context)
{
    int verdict = filtered(context);

    return verdict == XDP_PASS ? pass_on(context) : verdict;
}

char _license[] SEC("license") = "Dual MIT/GPL";
