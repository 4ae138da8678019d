/* Span: a part of a packet, with bounds. */
#ifndef COLLECTORS_INT_SPAN_H
#define COLLECTORS_INT_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes that are still to be read: from `at` up to, but not including, `end`. */
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

/* Returns the first `bytes` bytes of a span. If the span is shorter, returns the whole span. */
static inline struct span first(struct span span, size_t bytes)
{
    return has(span, bytes) ? (struct span){span.at, span.at + bytes} : span;
}

/* Returns the span without its first `bytes` bytes. */
static inline struct span rest(struct span span, size_t bytes)
{
    return has(span, bytes) ? (struct span){span.at + bytes, span.end}
                            : (struct span){span.end, span.end};
}

#endif
