// Layer 4 load balancer. A packet to the address of a service is sent to one of the real servers
// (reals) of the service. Maglev's table selects the real. All packets of a connection go to the
// same real. The balancer changes only the destination MAC address. Responses do not pass this host
// (direct server return).

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "chain.h"
#include "hash.h"
#include "packet.h"

#define MAX_SERVICES 64
#define MAX_REALS 4096
#define MAX_FLOWS 262144
#define PLACES 65537 // of load_balancer.py
#define TCP_SYN 0x02
#define TCP_ACK 0x10

const volatile __u8 balancer_mac[ETH_ALEN] = {};

struct service {
    __u32 address[4]; // as in struct packet
    __be16 port;
    __u8 protocol;
    __u8 zero;
};

struct { // map from service to the index of its table
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_SERVICES);
    __type(key, struct service);
    __type(value, __u32);
} services SEC(".maps");

struct places {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PLACES);
    __type(key, __u32);
    __type(value, __u32); // index of the real
};

// An inner map is the table of one service. Tables are replaced as a whole, so each packet sees
// either the old table or the new table.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, MAX_SERVICES);
    __type(key, __u32);
    __array(values, struct places);
} tables SEC(".maps");

struct real {
    // id of the real; 0 means that there is none. Unlike a slot, an id is never used again
    __u32 id;
    __u8 mac[ETH_ALEN];
    __u16 zero;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_REALS);
    __type(key, __u32);
    __type(value, struct real);
} reals SEC(".maps");

struct traffic {
    __u64 packets;
    __u64 bytes;
};

struct { // by reals
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, MAX_REALS);
    __type(key, __u32);
    __type(value, struct traffic);
} sent SEC(".maps");

struct flow {
    __u32 source[4];
    __u32 destination[4];
    __be16 source_port;
    __be16 destination_port;
    __u32 protocol;
};

struct choice {
    __u32 real;
    __u32 id;
};

struct { // when it is full, the connection that was idle for the longest time is evicted
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, MAX_FLOWS);
    __type(key, struct flow);
    __type(value, struct choice);
} flows SEC(".maps");

struct counts {
    __u64 by_connection; // sent to the real that received earlier packets of the connection
    // sent to the real that Maglev's table selects: first packet of a connection, or the connection
    // was evicted
    __u64 by_table;
    __u64 moved;         // also counted in by_table: the previous real was removed
    __u64 remembered;    // also counted in by_table: the connection was new
    __u64 unplaced;      // dropped, because the service has no real
    __u64 errors;        // ICMP errors; they are sent to the real of the connection that they quote
    __u64 malformed;     // passed to the kernel, like all packets in the counters below
    __u64 fragments;
    __u64 not_served;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct counts);
} counts SEC(".maps");

static __always_inline _Bool is_addressed(const struct ethhdr *ethernet)
{
    __u8 differ = 0;

    for (int i = 0; i < ETH_ALEN; i++)
        differ |= ethernet->h_dest[i] ^ balancer_mac[i];
    return !differ;
}

// Return the real that the table of a service selects, or NULL.
static __always_inline struct real *by_table(__u32 table, const struct flow *flow, __u32 *number)
{
    __u32 hash = murmur3((const __u32 *)flow, sizeof(*flow) / sizeof(__u32));
    __u32 place = (__u64)hash * PLACES >> 32;
    void *places = bpf_map_lookup_elem(&tables, &table);
    __u32 *owner = places ? bpf_map_lookup_elem(places, &place) : 0;

    if (!owner)
        return 0;
    *number = *owner;
    return bpf_map_lookup_elem(&reals, owner);
}

// Return the real for a packet of a connection. A SYN starts a new connection, so earlier state is
// ignored for it.
static __always_inline struct real *chosen(struct counts *count, __u32 table,
                                           const struct flow *flow, __u8 tcp_flags, __u32 *number)
{
    _Bool is_new = (tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
    struct choice *before = bpf_map_lookup_elem(&flows, flow);
    struct choice choice;
    struct real *real;

    if (before && !is_new) {
        *number = before->real;
        real = bpf_map_lookup_elem(&reals, number);
        if (real && real->id == before->id) {
            count->by_connection++;
            return real;
        }
        count->moved++;
    }
    real = by_table(table, flow, number);
    if (!real || !real->id) {
        count->unplaced++;
        return 0;
    }
    choice = (struct choice){.real = *number, .id = real->id};
    bpf_map_update_elem(&flows, flow, &choice, BPF_ANY);
    count->by_table++;
    count->remembered += !before;
    return real;
}

// Return the real for an ICMP error about a connection. This connection is not stored, because
// anyone can send such an error.
static __always_inline struct real *concerned(__u32 table, const struct flow *flow, __u32 *number)
{
    struct choice *before = bpf_map_lookup_elem(&flows, flow);
    struct real *real = before ? bpf_map_lookup_elem(&reals, &before->real) : 0;

    if (real && real->id == before->id) {
        *number = before->real;
        return real;
    }
    real = by_table(table, flow, number);
    return real && real->id ? real : 0;
}

static __always_inline int send(const struct real *real, __u32 number, struct ethhdr *ethernet,
                                __u32 length)
{
    struct traffic *traffic = bpf_map_lookup_elem(&sent, &number);

    if (traffic) {
        traffic->packets++;
        traffic->bytes += length;
    }
    __builtin_memcpy(ethernet->h_source, ethernet->h_dest, ETH_ALEN);
    __builtin_memcpy(ethernet->h_dest, real->mac, ETH_ALEN);
    return XDP_TX;
}

static __always_inline __u32 *table_of(const __u32 *address, __be16 port, __u8 protocol)
{
    struct service service = {.port = port, .protocol = protocol};

    __builtin_memcpy(service.address, address, sizeof(service.address));
    return bpf_map_lookup_elem(&services, &service);
}

static __always_inline int balance(struct counts *count, struct ethhdr *ethernet, __u32 length,
                                   const struct packet *packet, __u32 table)
{
    struct flow flow = {
        .source_port = packet->source_port,
        .destination_port = packet->destination_port,
        .protocol = packet->protocol,
    };
    struct real *real;
    __u32 number = 0;

    __builtin_memcpy(flow.source, packet->source, sizeof(flow.source));
    __builtin_memcpy(flow.destination, packet->destination, sizeof(flow.destination));
    real = chosen(count, table, &flow, packet->tcp_flags, &number);
    return real ? send(real, number, ethernet, length) : XDP_DROP;
}

// Handle an ICMP error. It quotes a packet of a real, so the source of the quoted packet is the
// address of the service. Returns XDP_PASS for packets that are no ICMP errors.
static __always_inline int return_error(struct counts *count, struct ethhdr *ethernet, void *end,
                                        const struct packet *packet)
{
    struct flow flow = {};
    struct packet quoted;
    struct real *real;
    __u32 number = 0, *table, differ = 0;

    if (!parse_quoted(ethernet, end, packet, &quoted))
        return XDP_PASS;
    for (int i = 0; i < 4; i++)
        differ |= quoted.source[i] ^ packet->destination[i];
    table = differ ? 0 : table_of(quoted.source, quoted.source_port, quoted.protocol);
    if (!table)
        return XDP_PASS;
    flow.source_port = quoted.destination_port;
    flow.destination_port = quoted.source_port;
    flow.protocol = quoted.protocol;
    __builtin_memcpy(flow.source, quoted.destination, sizeof(flow.source));
    __builtin_memcpy(flow.destination, quoted.source, sizeof(flow.destination));
    real = concerned(*table, &flow, &number);
    if (!real)
        return XDP_PASS;
    count->errors++;
    return send(real, number, ethernet, end - (void *)ethernet);
}

static __always_inline int balanced(struct xdp_md *context)
{
    void *end = (void *)(long)context->data_end;
    struct ethhdr *ethernet = (void *)(long)context->data;
    __u32 first = 0, *table;
    struct counts *count = bpf_map_lookup_elem(&counts, &first);
    struct packet packet;

    if (!count)
        return XDP_ABORTED; // impossible, because an array always has its first entry
    if ((void *)(ethernet + 1) > end || !is_addressed(ethernet))
        return XDP_PASS;
    if (!parse(ethernet, end, &packet)) {
        count->malformed++;
        return XDP_PASS;
    }
    // a fragment other than the first has no ports, but all fragments must go to the same real
    if (packet.is_fragment) {
        count->fragments++;
        return XDP_PASS;
    }
    table = table_of(packet.destination, packet.destination_port, packet.protocol);
    if (table)
        return balance(count, ethernet, end - (void *)ethernet, &packet, *table);
    if (return_error(count, ethernet, end, &packet) == XDP_TX)
        return XDP_TX;
    count->not_served++;
    return XDP_PASS;
}

SEC("xdp")
int load_balancer(struct xdp_md *context)
{
    int verdict = balanced(context);

    return verdict == XDP_PASS ? pass_on(context) : verdict;
}

char _license[] SEC("license") = "Dual MIT/GPL";
