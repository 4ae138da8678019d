// Key of a flow (the header fields that its packets have in common), and a 64-bit hash of the key.
#pragma once
#include "packet.h"

// IPv4 addresses are mapped into IPv6, so IPv4 and IPv6 have the same kind of key. All fields are
// in network byte order.
struct key {
    __u32 source[4], destination[4];
    __be16 source_port, destination_port;
    __u8 protocol, zero[3];
};

// The fields of keys that are used (FIELDS in the reader). The verifier removes the code for all
// other fields.
enum { SOURCE = 1, DESTINATION = 2, SOURCE_PORT = 4, DESTINATION_PORT = 8, PROTOCOL = 16 };
const volatile __u32 key_fields = 31;

// Odd random numbers, which the loader sets. Senders do not know them, so they cannot choose keys
// with the same hash.
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

// Apply the finaliser of 64-bit MurmurHash3. Every bit of the result depends on every bit of the
// input.
static __always_inline __u64 mixed(__u64 word)
{
    word = (word ^ word >> 33) * 0xff51afd7ed558ccdULL;
    word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return word ^ word >> 33;
}

// Return a multilinear hash. First, each word is folded: IPv4 addresses are in the upper halves of
// words, and products modulo 2^64 would lose most of these bits.
static __always_inline __u64 hash_of(const struct key *key)
{
    __u64 words[5], sum = 0;
    __builtin_memcpy(words, key, sizeof words);
    for (int i = 0; i < 5; i++)
        sum += (words[i] ^ words[i] >> 29) * hash_factors[i];
    return mixed(sum);
}

// Return the position of the highest bit that is set. If `word` is 0, return 0.
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
