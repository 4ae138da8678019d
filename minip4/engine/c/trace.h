/* Trace of packets: the events of each packet, in a bounded buffer.
 *
 * Only builds with MINIP4_TRACE contain the trace; in other builds, the macros are empty. An event
 * has three words and up to 2^24 - 1 further words. The first word is kind << 56 | number of
 * further words << 32 | packet. The second word is number << 32 | port. The third word is the time
 * in ns. Events that do not fit are counted and omitted. A trace never delays packets. */
#ifndef MINIP4_TRACE_H
#define MINIP4_TRACE_H

#include <stddef.h>
#include <stdint.h>

enum trace_kind {
    TRACED_IN,        /* port: ingress port; number: bytes */
    /* a packet made from packet `number`; port: its port; words: instance type, rid */
    TRACED_COPY,
    TRACED_STATE,     /* number: parser state */
    TRACED_EXTRACT,   /* number: header; words: offset, size, its first bytes */
    TRACED_PARSED,    /* number: parser error */
    TRACED_PIPELINE,  /* number: 0 ingress, 1 egress, 2 deparser */
    TRACED_CONDITION, /* number: condition; words: result */
    TRACED_TABLE,     /* number: table; words: is hit, words of key, handle, priority, key, slot */
    TRACED_ACTION,    /* number: action; words: data */
    /* number: register; words: index, value (here and below, there is no value if the index is out
     * of bounds) */
    TRACED_READ,
    TRACED_WRITE,     /* number: register; words: index, value */
    TRACED_COUNT,     /* number: counter; words: index, packets, bytes */
    TRACED_METER,     /* number: meter; words: index, colour */
    TRACED_FIELD,     /* number: changed field; words: old value, new value */
    TRACED_VALID,     /* number: header whose validity changed; words: old, new */
    TRACED_DIGEST,    /* number */
    TRACED_CLONE,     /* number: session; words: copies */
    TRACED_MULTICAST, /* number: group; words: copies; the original ends here */
    TRACED_ENQUEUE,   /* port; number: priority; words: packets and bytes queued before it */
    /* port; number: priority; words: packets left in the queue, waiting time in us */
    TRACED_DEQUEUE,
    TRACED_DEFLECT,   /* port with a full queue; number: priority; words: as in TRACED_ENQUEUE */
    TRACED_AGAIN,     /* another pass of the parser; number: instance type */
    TRACED_OUT,       /* port; number: bytes; words: whether the link loses it */
    TRACED_DROP       /* port; number: enum drop_reason */
};

struct trace_field {
    uint32_t offset, size; /* location in the parsed packet */
    int32_t valid;         /* validity flag of its header; -1 means metadata */
};

#ifdef MINIP4_TRACE

struct context;
struct phv;

void trace_put(struct context *c, uint32_t packet, enum trace_kind kind, uint64_t number,
               uint16_t port, const uint64_t *words, uint32_t count);
/* Add an event of the current packet. */
void trace_event(struct context *c, enum trace_kind kind, uint64_t number, const uint64_t *words,
                 uint32_t count);
void trace_extract(struct context *c, uint32_t number, const uint8_t *at, uint64_t size);
void trace_table(struct context *c, uint32_t number, const uint64_t *key, uint32_t key_words,
                 const uint64_t *slot, uint32_t slot_words);
/* Add an access to the cell `index` of a register, counter or meter. TRACE_DIRECT means that the
 * cell belongs to the entry that was hit. `value` has the words of the cell, or is NULL for an
 * index out of bounds. */
void trace_access(struct context *c, enum trace_kind kind, uint32_t number, uint64_t index,
                  const void *value, uint32_t words);
/* Add events for the changes of the current packet since the last call, or since
 * trace_snapshot(). */
void trace_changes(struct context *c);
void trace_snapshot(struct context *c);

/* Macros for generated code, in which `c` is the context. */
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

extern const struct trace_field trace_fields[]; /* the last one is for the validity flags */
extern const uint32_t trace_field_count;

/* Macros for the core. */
#define TRACE(...) trace_put(__VA_ARGS__)
#define TRACE_WORDS(...) \
    (const uint64_t[]){__VA_ARGS__}, sizeof(uint64_t[]){__VA_ARGS__} / sizeof(uint64_t)

struct trace *trace_create(uint32_t phv_size);
void trace_destroy(struct trace *trace);
/* Return the trace number of a received or copied packet, or 0 if the buffer is too full to start
 * its trace. */
uint32_t trace_new_packet(struct trace *trace);

#else
#define TRACE(...) ((void)0)
#endif

#endif
