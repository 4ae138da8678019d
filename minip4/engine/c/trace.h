/* The trace of packets: what happened to each, as events in a bounded buffer.
 *
 * Only a build with MINIP4_TRACE has any of this: elsewhere the macros are empty. An event is
 * three words, kind << 56 | words that follow << 32 | packet, then number << 32 | port, then the
 * time in ns; and the words that follow. What does not fit is counted and left out: a trace never
 * holds up packets. */
#ifndef MINIP4_TRACE_H
#define MINIP4_TRACE_H

#include <stddef.h>
#include <stdint.h>

enum trace_kind {
    TRACED_IN,        /* at port; number: bytes */
    TRACED_COPY,      /* a new packet, made from packet `number`; to port; words: instance type, rid */
    TRACED_STATE,     /* parser state number */
    TRACED_EXTRACT,   /* header number; words: offset, size, its first bytes */
    TRACED_PARSED,    /* parser error number */
    TRACED_PIPELINE,  /* 0 ingress, 1 egress, 2 deparser */
    TRACED_CONDITION, /* number; words: result */
    TRACED_TABLE,     /* number; words: is hit, words of key, handle, priority, key, slot */
    TRACED_ACTION,    /* number; words: data */
    TRACED_READ,      /* register number; words: index, value; no value: out of bounds, so below */
    TRACED_WRITE,     /* register number; words: index, value */
    TRACED_COUNT,     /* counter number; words: index, packets, bytes */
    TRACED_METER,     /* number; words: index, colour */
    TRACED_FIELD,     /* changed field number; words: old, new */
    TRACED_VALID,     /* validity of header number; words: old, new */
    TRACED_DIGEST,    /* number */
    TRACED_CLONE,     /* session number; words: copies */
    TRACED_MULTICAST, /* group number; words: copies; the packet itself ends */
    TRACED_ENQUEUE,   /* at port; number: priority; words: packets before it, bytes before it */
    TRACED_DEQUEUE,   /* at port; number: priority; words: packets left, us waited */
    TRACED_DEFLECT,   /* at port, whose queue is full; number: priority; words: as TRACED_ENQUEUE */
    TRACED_AGAIN,     /* parsed once more; number: instance type */
    TRACED_OUT,       /* at port; number: bytes; words: is lost by the link */
    TRACED_DROP       /* at port; number: enum drop_reason */
};

struct trace_field {
    uint32_t offset, size; /* in the parsed packet */
    int32_t valid;         /* its header's validity flag; -1: metadata */
};

#ifdef MINIP4_TRACE

struct context;
struct phv;

void trace_put(struct context *c, uint32_t packet, enum trace_kind kind, uint64_t number,
               uint16_t port, const uint64_t *words, uint32_t count);
/* Of the packet at hand. */
void trace_event(struct context *c, enum trace_kind kind, uint64_t number, const uint64_t *words,
                 uint32_t count);
void trace_extract(struct context *c, uint32_t number, const uint8_t *at, uint64_t size);
void trace_table(struct context *c, uint32_t number, const uint64_t *key, uint32_t key_words,
                 const uint64_t *slot, uint32_t slot_words);
/* An access to the cell `index` of a register, counter or meter; TRACE_DIRECT: it belongs to the entry
 * that was hit. Its value: so many words, or NULL for an index out of bounds. */
void trace_access(struct context *c, enum trace_kind kind, uint32_t number, uint64_t index,
                  const void *value, uint32_t words);
/* Tells what changed in the packet at hand since it was last asked, or since trace_snapshot(). */
void trace_changes(struct context *c);
void trace_snapshot(struct context *c);

/* In generated code, `c` is the context. */
#define TRACE_STATE(number) trace_changes(c), trace_event(c, TRACED_STATE, number, NULL, 0);
#define TRACE_BEFORE_EXTRACT trace_changes(c);
#define TRACE_EXTRACT(number, at, size) trace_extract(c, (uint32_t)(number), at, size);
#define TRACE_PARSED trace_changes(c), trace_event(c, TRACED_PARSED, error, NULL, 0);
#define TRACE_PIPELINE(number) trace_event(c, TRACED_PIPELINE, number, NULL, 0), trace_snapshot(c);
#define TRACE_CHANGES trace_changes(c);
#define TRACE_CONDITION(number, result) \
    trace_changes(c), trace_event(c, TRACED_CONDITION, number, (const uint64_t[]){result}, 1);
#define TRACE_TABLE(number, key, key_words, slot, slot_words) \
    trace_changes(c), trace_table(c, number, key, key_words, slot, slot_words);
#define TRACE_ACTION(number, data, words) \
    trace_changes(c), trace_event(c, TRACED_ACTION, number, data, words);
#define TRACE_DIRECT UINT64_MAX
#define TRACE_REGISTER(kind, number, index, size, limbs) \
    trace_access(c, kind, number, index, \
                 (index) < (size) ? c->registers[number].words + (index) * (limbs) : NULL, limbs);
#define TRACE_COUNT(number, index, size) \
    trace_access(c, TRACED_COUNT, number, index, \
                 (index) < (size) ? c->counters[number].cells + (index) : NULL, 2);
#define TRACE_COUNT_DIRECT(number, count) \
    trace_access(c, TRACED_COUNT, number, TRACE_DIRECT, count, 2);
#define TRACE_METER(number, index, colour) \
    trace_access(c, TRACED_METER, number, index, (colour) < COLOURS ? &(colour) : NULL, 1);
#define TRACE_FIELDS const struct trace_field trace_fields[] = {
#define TRACE_FIELD(member, valid) \
    {(uint32_t)offsetof(struct phv, member), sizeof ((struct phv *)NULL)->member, valid},
#define TRACE_FIELDS_END(valid, count) \
    {(uint32_t)offsetof(struct phv, valid), count, -1}}; \
    const uint32_t trace_field_count = sizeof trace_fields / sizeof *trace_fields;

extern const struct trace_field trace_fields[]; /* the last: the validity flags */
extern const uint32_t trace_field_count;

/* In the core. */
#define TRACE(...) trace_put(__VA_ARGS__)
#define TRACE_WORDS(...) \
    (const uint64_t[]){__VA_ARGS__}, sizeof(uint64_t[]){__VA_ARGS__} / sizeof(uint64_t)

struct trace *trace_create(uint32_t phv_size);
void trace_destroy(struct trace *trace);
/* A number for a packet that comes in or is copied; 0: the buffer is too full to begin with one. */
uint32_t trace_new_packet(struct trace *trace);

#else
#define TRACE(...) ((void)0)
#endif

#endif
