/* Statistics for the detection of threats. Each packet is counted once, either at XDP or at tc.
 *
 * HeavyKeeper finds pairs of hosts with many packets. Suspects are hosts, and pairs of hosts, that
 * open connections or that get responses from amplifying services. Each suspect has a packet count,
 * and a bitmap of its peers. */
#include "chain.h"
#include "flows.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum kind { SPREADER = 1, SCANNER, FLOODED, ANSWERED };
enum { SYN = 2, ACK = 16, WORDS = 8, SUSPECTS = 4 };

struct suspect {
    __u64 hash;          /* 0 means that the slot is free */
    __u64 packets, bytes;
    /* FLOODED: number of packets that continue a handshake; ANSWERED: number of bytes of
     * requests */
    __u64 returned;
    __u64 seen[WORDS];   /* bitmap; the hash of a destination, port or source selects a bit */
    struct key key;
    __u32 kind;
};

struct suspects {
    struct suspect each[SUSPECTS];
};
BUFFERS(suspects, struct suspects);

struct losses {
    /* numbers of suspects that got no slot, and of suspects that lost their slot to others */
    __u64 refused, replaced;
};
BUFFERS(losses, struct losses);

const volatile __u32 places = 1;      /* number of groups of suspects; a power of two */
/* UDP ports of services whose responses are long; 0 ends the list */
const volatile __u16 amplifying[16] = {};

static __always_inline __u64 hash_of_kind(enum kind kind, const struct key *key)
{
    __u64 hash = mixed(hash_of(key) + kind);

    return hash ? hash : 1;
}

static __always_inline void forget(struct suspect *suspect, enum kind kind, const struct key *key,
                                   __u64 hash)
{
    *suspect = (struct suspect){.hash = hash, .key = *key, .kind = kind};
}

/* Return the suspect with this key, or NULL. */
static __always_inline struct suspect *known(struct suspects *group, __u64 hash)
{
    for (int i = 0; i < SUSPECTS; i++)
        if (group->each[i].hash == hash)
            return &group->each[i];
    return 0;
}

/* Return a slot for a new suspect. If no slot is free, the new suspect may replace another suspect.
 * The probability of a replacement decreases with the packet count of the other suspect, as in
 * HeavyKeeper. So a sender that forges many addresses does not replace a suspect with many
 * packets. */
static __always_inline struct suspect *place_for(struct suspects *group, __u32 buffer)
{
    struct losses *lost = bpf_map_lookup_elem(&losses, &buffer);
    struct suspect *found = known(group, 0);
    __u64 random, packets;

    if (found || !lost)
        return found;
    random = next_random();
    found = &group->each[random >> 62];
    packets = found->packets;
    if (packets < DECAYS && (__u32)random < decay[packets & (DECAYS - 1)]) {
        lost->replaced++;
        return found;
    }
    lost->refused++;
    return 0;
}

static __always_inline struct suspects *group_of(__u32 buffer, __u64 hash)
{
    __u32 place = buffer * places + (__u32)(hash >> 32 & (places - 1));

    return bpf_map_lookup_elem(&suspects, &place);
}

/* Count a packet against a suspect. `whom` is the hash of the other host or port. */
static __always_inline void blame(__u32 buffer, enum kind kind, const struct key *key, __u64 whom,
                                  __u64 length)
{
    __u64 hash = hash_of_kind(kind, key);
    struct suspects *group = group_of(buffer, hash);
    struct suspect *suspect;

    if (!group)
        return;
    suspect = known(group, hash);
    if (!suspect) {
        suspect = place_for(group, buffer);
        if (!suspect)
            return;
        forget(suspect, kind, key, hash);
    }
    suspect->packets++;
    suspect->bytes += length;
    suspect->seen[whom >> 61] |= 1ULL << (whom & 63);
}

/* Count evidence that exonerates a suspect, if the suspect has a slot. */
static __always_inline void defend(__u32 buffer, enum kind kind, const struct key *key, __u64 much)
{
    __u64 hash = hash_of_kind(kind, key);
    struct suspects *group = group_of(buffer, hash);
    struct suspect *suspect = group ? known(group, hash) : 0;

    if (suspect)
        suspect->returned += much;
}

static __always_inline bool amplifies(__be16 port)
{
    for (int i = 0; i < 16; i++)
        if (amplifying[i] && amplifying[i] == bpf_ntohs(port))
            return true;
    return false;
}

/* Return a key that has only some of the fields of another key. */
static __always_inline struct key part_of(const struct key *whole, __u32 fields)
{
    struct key key = {.protocol = whole->protocol};

    if (fields & SOURCE)
        __builtin_memcpy(key.source, whole->source, 16);
    if (fields & DESTINATION)
        __builtin_memcpy(key.destination, whole->destination, 16);
    if (fields & SOURCE_PORT)
        key.source_port = whole->source_port;
    if (fields & DESTINATION_PORT)
        key.destination_port = whole->destination_port;
    return key;
}

/* Count a new connection. The suspect "source host" gets one more destination host. The suspect
 * "pair of hosts" gets one more destination port. */
static __always_inline void count_opening(__u32 buffer, const struct key *whole, __u64 length)
{
    struct key destination = part_of(whole, DESTINATION);
    struct key port = part_of(whole, DESTINATION_PORT);
    struct key source = part_of(whole, SOURCE);
    struct key pair = part_of(whole, SOURCE | DESTINATION);

    blame(buffer, SPREADER, &source, hash_of(&destination), length);
    blame(buffer, SCANNER, &pair, hash_of(&port), length);
}

static __always_inline void count_tcp(__u32 buffer, const struct key *whole, __u8 flags,
                                      __u64 length)
{
    struct key service = part_of(whole, DESTINATION | DESTINATION_PORT);
    struct key source = part_of(whole, SOURCE);

    if ((flags & (SYN | ACK)) == SYN) {
        count_opening(buffer, whole, length);
        blame(buffer, FLOODED, &service, hash_of(&source), length);
    } else if ((flags & (SYN | ACK)) == ACK) {
        defend(buffer, FLOODED, &service, 1);
    }
}

static __always_inline void count_udp(__u32 buffer, const struct key *whole, __u64 length)
{
    struct key victim = part_of(whole, DESTINATION | SOURCE_PORT), source = part_of(whole, SOURCE);

    if (amplifies(whole->source_port)) {
        blame(buffer, ANSWERED, &victim, hash_of(&source), length);
        return;
    }
    if (amplifies(whole->destination_port)) {
        /* the victim is the host that gets the responses; the port is that of the service */
        __builtin_memcpy(victim.destination, whole->source, 16);
        victim.source_port = whole->destination_port;
        defend(buffer, ANSWERED, &victim, length);
    }
    count_opening(buffer, whole, length);
}

static __always_inline void observe(void *data, void *data_end, __u32 length)
{
    __u32 buffer = buffer_now();
    struct totals *own = bpf_map_lookup_elem(&totals, &buffer);
    struct packet packet;
    struct key whole, pair;

    if (!own)
        return;
    if (!parse_head(data, data_end, length, &packet)) {
        own->ignored++;
        return;
    }
    add_totals(own, length);
    key_of(&packet, &whole);
    pair = part_of(&whole, SOURCE | DESTINATION);
    pair.protocol = 0;
    keep_heavy(buffer, &pair, hash_of(&pair), next_random());
    if (packet.protocol == IPPROTO_TCP)
        count_tcp(buffer, &whole, packet.tcp_flags, length);
    else if (packet.protocol == IPPROTO_UDP)
        count_udp(buffer, &whole, length);
}

SEC("xdp")
int at_xdp(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

    observe(data, end, end - data);
    return pass_on(ctx);
}

SEC("tc")
int at_tc(struct __sk_buff *skb)
{
    pull_headers(skb);
    observe((void *)(long)skb->data, (void *)(long)skb->data_end, skb->len);
    return -1; /* TC_ACT_UNSPEC: the packet continues as if this program did not exist */
}
