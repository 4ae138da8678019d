// Which packets belong together: a key of the packet's fields, and a 64-bit hash of it.
#pragma once
#include "packet.h"

// IPv4 addresses are mapped into IPv6's, so that one key serves both. All in network order.
struct key {
    __u32 source[4], destination[4];
    __be16 source_port, destination_port;
    __u8 protocol, zero[3];
};

// Of which fields keys are made (the reader's FIELDS); the verifier drops the code of the others.
enum { SOURCE = 1, DESTINATION = 2, SOURCE_PORT = 4, DESTINATION_PORT = 8, PROTOCOL = 16 };
const volatile __u32 key_fields = 31;

// Odd random numbers set by the loader: otherwise senders could choose keys that collide.
const volatile __u64 hash_factors[5] = {1, 3, 5, 7, 9};

static __always_inline void key_of(const struct packet *packet, struct key *key)
{
    __builtin_memset(key, 0, sizeof *key);
    if (key_fields & SOURCE)
        __builtin_memcpy(key->source, packet->source, 16);
    if (key_fields & DESTINATION)
        __builtin_memcpy(key->destination, packet->destination, 16);
    if (key_fields & SOURCE_PORT)
        key->source_port = packet->source_port;
    if (key_fields & DESTINATION_PORT)
        key->destination_port = packet->destination_port;
    if (key_fields & PROTOCOL)
        key->protocol = packet->protocol;
}

// The finaliser of MurmurHash3 (64 bits): every bit of the result depends on every bit given.
static __always_inline __u64 mixed(__u64 word)
{
    word = (word ^ word >> 33) * 0xff51afd7ed558ccdULL;
    word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return word ^ word >> 33;
}

// Multilinear hashing: words are folded first, since IPv4 addresses lie in their upper halves,
// where products modulo 2^64 would keep little of them.
static __always_inline __u64 hash_of(const struct key *key)
{
    __u64 words[5], sum = 0;
    __builtin_memcpy(words, key, sizeof words);
    for (int i = 0; i < 5; i++)
        sum += (words[i] ^ words[i] >> 29) * hash_factors[i];
    return mixed(sum);
}

// The position of the highest bit that is set; 0 of 0.
static __always_inline __u32 highest_bit(__u64 word)
{
    __u32 position = 0;
    for (int step = 32; step; step >>= 1)
        if (word >> step) {
            word >>= step;
            position += step;
        }
    return position;
}
