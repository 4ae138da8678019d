/* Trace of packets: a buffer of events that the control plane empties. */
#include "trace.h"

#ifdef MINIP4_TRACE
#include <stdlib.h>

#include "engine_internal.h"

enum {
    BUFFER_WORDS = 1 << 16,
    RESERVED_WORDS = BUFFER_WORDS / 4, /* reserved for packets whose trace has begun */
    HEAD_WORDS = 3,
    MAX_EXTRACT_WORDS = 256 / 8
};

struct trace {
    uint8_t *before;       /* the parsed packet at the last call of trace_changes() */
    uint32_t packets, used;
    uint64_t packets_left_out, events_left_out;
    uint64_t buffer[BUFFER_WORDS];
};

struct trace *trace_create(uint32_t phv_size)
{
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace || (trace->before = malloc(phv_size)))
        return trace;
    free(trace);
    return NULL;
}

void trace_destroy(struct trace *trace)
{
    if (!trace)
        return;
    free(trace->before);
    free(trace);
}

uint32_t trace_new_packet(struct trace *trace)
{
    if (trace->used > BUFFER_WORDS - RESERVED_WORDS) {
        trace->packets_left_out++;
        return 0;
    }
    if (!++trace->packets) /* 0 means "not traced", so skip it */
        trace->packets++;
    return trace->packets;
}

void trace_put(struct context *c, uint32_t packet, enum trace_kind kind, uint64_t number,
               uint16_t port, const uint64_t *words, uint32_t count)
{
    struct trace *trace = c->trace;
    if (!packet)
        return;
    if (trace->used + HEAD_WORDS + count > BUFFER_WORDS) {
        trace->events_left_out++;
        return;
    }
    uint64_t *event = trace->buffer + trace->used;
    event[0] = (uint64_t)kind << 56 | (uint64_t)count << 32 | packet;
    event[1] = number << 32 | port;
    event[2] = c->now_ns;
    if (count)
        memcpy(event + HEAD_WORDS, words, count * sizeof *words);
    trace->used += HEAD_WORDS + count;
}

void trace_event(struct context *c, enum trace_kind kind, uint64_t number, const uint64_t *words,
                 uint32_t count)
{
    trace_put(c, phv_start(c->packet)->trace, kind, number, 0, words, count);
}

void trace_extract(struct context *c, uint32_t number, const uint8_t *at, uint64_t size)
{
    if (!phv_start(c->packet)->trace)
        return;
    uint64_t words[2 + MAX_EXTRACT_WORDS] = {(uint64_t)(at - c->packet->data), size};
    uint64_t bytes = size < MAX_EXTRACT_WORDS * 8 ? size : MAX_EXTRACT_WORDS * 8;
    memcpy(words + 2, at, bytes);
    trace_event(c, TRACED_EXTRACT, number, words, 2 + (uint32_t)(bytes + 7) / 8);
    trace_snapshot(c);
}

void trace_table(struct context *c, uint32_t number, const uint64_t *key, uint32_t key_words,
                 const uint64_t *slot, uint32_t slot_words)
{
    if (!phv_start(c->packet)->trace)
        return;
    uint64_t words[4 + key_words + slot_words];
    const struct table *t = &c->tables[number];
    uint64_t entry = slot ? (uint64_t)(slot - t->slots) / t->stride : 0;
    words[0] = slot != NULL;
    words[1] = key_words;
    words[2] = slot ? (uint64_t)t->info[entry].generation << 32 | entry : 0;
    words[3] = slot ? (uint64_t)(int64_t)t->info[entry].priority : 0;
    if (key_words)
        memcpy(words + 4, key, key_words * sizeof *key);
    if (slot)
        memcpy(words + 4 + key_words, slot, slot_words * sizeof *slot);
    trace_event(c, TRACED_TABLE, number, words, 4 + key_words + (slot ? slot_words : 0));
}

void trace_access(struct context *c, enum trace_kind kind, uint32_t number, uint64_t index,
                  const void *value, uint32_t words)
{
    if (!phv_start(c->packet)->trace)
        return;
    uint64_t event[1 + words];
    event[0] = index;
    if (value)
        memcpy(event + 1, value, words * sizeof *event);
    trace_changes(c);
    trace_event(c, kind, number, event, value ? 1 + words : 1);
}

void trace_snapshot(struct context *c)
{
    if (phv_start(c->packet)->trace)
        memcpy(c->trace->before, c->packet->phv, program.phv_size);
}

static void changed_field(struct context *c, uint32_t number, const struct trace_field *field)
{
    uint32_t words = (field->size + 7) / 8;
    uint64_t values[2 * words];
    memset(values, 0, sizeof values);
    memcpy(values, c->trace->before + field->offset, field->size);
    memcpy(values + words, c->packet->phv + field->offset, field->size);
    trace_event(c, TRACED_FIELD, number, values, 2 * words);
}

void trace_changes(struct context *c)
{
    const uint8_t *before = c->trace->before, *now = c->packet->phv;
    if (!phv_start(c->packet)->trace)
        return;
    const struct trace_field *flags = &trace_fields[trace_field_count - 1];
    const uint8_t *was_valid = before + flags->offset, *is_valid = now + flags->offset;
    for (uint32_t i = 0; i < flags->size; i++)
        if (was_valid[i] != is_valid[i])
            trace_event(c, TRACED_VALID, i, (const uint64_t[]){was_valid[i], is_valid[i]}, 2);
    for (uint32_t i = 0; i + 1 < trace_field_count; i++) {
        const struct trace_field *field = &trace_fields[i];
        if (field->valid >= 0 && !is_valid[field->valid])
            continue;
        if (memcmp(before + field->offset, now + field->offset, field->size))
            changed_field(c, i, field);
    }
    trace_snapshot(c);
}

uint32_t engine_trace_read(struct engine *e, uint64_t *words, uint32_t room, uint64_t left_out[2])
{
    struct trace *trace = e->context.trace;
    lock_take(&e->lock, HOLD_STATE);
    uint32_t count = trace->used <= room ? trace->used : 0;
    memcpy(words, trace->buffer, count * sizeof *words);
    left_out[0] = trace->packets_left_out;
    left_out[1] = trace->events_left_out;
    trace->used -= count;
    lock_give(&e->lock, count);
    return count;
}
#endif
