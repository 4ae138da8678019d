// 32-bit MurmurHash3 (Austin Appleby, public domain). The input consists of 32-bit words.
// murmur3() of collectors/dta/hashes.py is the Python version.

#pragma once

#include <linux/types.h>

static __always_inline __u32 rotated(__u32 word, int bits)
{
    return word << bits | word >> (32 - bits);
}

static __always_inline __u32 murmur3(const __u32 *words, int count)
{
    __u32 hash = 0;

#pragma unroll
    for (int i = 0; i < count; i++) {
        hash ^= rotated(words[i] * 0xcc9e2d51, 15) * 0x1b873593;
        hash = rotated(hash, 13) * 5 + 0xe6546b64;
    }
    hash ^= count * sizeof(__u32);
    hash = (hash ^ hash >> 16) * 0x85ebca6b;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35;
    return hash ^ hash >> 16;
}
