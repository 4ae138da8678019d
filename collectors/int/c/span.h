/* Reading numbers from bytes of a packet, never past their end. */
#ifndef COLLECTORS_INT_BYTES_H
#define COLLECTORS_INT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is left to be read. */
struct span {
    const uint8_t *at, *end;
};

static inline size_t left(struct span span)
{
    return (size_t)(span.end - span.at);
}

static inline bool has(struct span span, size_t bytes)
{
    return left(span) >= bytes;
}

/* The first `bytes` of a span, or what there is of them. */
static inline struct span first(struct span span, size_t bytes)
{
    return has(span, bytes) ? (struct span){span.at, span.at + bytes} : span;
}

/* What follows them. */
static inline struct span rest(struct span span, size_t bytes)
{
    return has(span, bytes) ? (struct span){span.at + bytes, span.end}
                            : (struct span){span.end, span.end};
}

static inline uint16_t read16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof value);
    return __builtin_bswap16(value);
}

static inline uint32_t read32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t read64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return __builtin_bswap64(value);
}

#endif
