/* Functions for Python: tables, batches, counters, registers, meters; and a driver for tests. */
#include "control.h"

#include "change.h"
#include "engine_internal.h"

static struct table *table_of(struct engine *e, uint32_t table)
{
    return &e->context.tables[table];
}

/* --- tables ---------------------------------------------------------------------------------- */

int64_t engine_table_add(struct engine *e, uint32_t table, const uint64_t *key,
                         const uint64_t *mask, uint32_t prefix, int32_t priority,
                         const uint64_t *head_and_data, uint64_t now_ns)
{
    return table_add(table_of(e, table), key, mask, prefix, priority, head_and_data, now_ns);
}

int64_t engine_table_find(struct engine *e, uint32_t table, const uint64_t *key,
                          const uint64_t *mask, uint32_t prefix, int32_t priority)
{
    return table_find(table_of(e, table), key, mask, prefix, priority);
}

int engine_table_modify(struct engine *e, uint32_t table, int64_t handle,
                        const uint64_t *head_and_data)
{
    return table_modify(table_of(e, table), handle, head_and_data);
}

int engine_table_delete(struct engine *e, uint32_t table, int64_t handle)
{
    return table_delete(table_of(e, table), handle);
}

uint32_t engine_table_used(struct engine *e, uint32_t table)
{
    return table_of(e, table)->used;
}

uint32_t engine_table_stride(struct engine *e, uint32_t table)
{
    return table_of(e, table)->stride;
}

uint32_t engine_table_copy(struct engine *e, uint32_t table, uint32_t *from, uint32_t room,
                           uint64_t *out)
{
    return table_copy(table_of(e, table), from, room, out);
}

bool engine_table_copy_one(struct engine *e, uint32_t table, int64_t handle, uint64_t *out)
{
    return table_copy_one(table_of(e, table), handle, out);
}

int engine_table_set_timeout(struct engine *e, uint32_t table, int64_t handle, uint64_t timeout_ns)
{
    return table_set_timeout(table_of(e, table), handle, timeout_ns);
}

uint32_t engine_table_watched(struct engine *e, uint32_t table)
{
    return table_of(e, table)->watched;
}

uint32_t engine_table_age(struct engine *e, uint32_t table, uint32_t *from, uint64_t now_ns,
                          uint32_t room, uint64_t *out)
{
    return table_age(table_of(e, table), from, now_ns, room, out);
}

int engine_table_set_count(struct engine *e, uint32_t table, int64_t handle, const uint64_t *cell)
{
    struct table *t = table_of(e, table);
    const uint64_t *slot = table_slot(t, handle);
    if (!slot)
        return TABLE_NOT_FOUND;
    size_t at = (size_t)(slot - t->slots) + stats_offset(t->spec);
    struct place place = {&t->slots, at * sizeof *slot};
    return change_put(e, place, cell, sizeof(struct cell), 1, CHANGE_UNSEEN);
}

const uint64_t *engine_table_default(struct engine *e, uint32_t table)
{
    return table_of(e, table)->default_slot;
}

int engine_table_set_default(struct engine *e, uint32_t table, const uint64_t *head_and_data)
{
    struct table *t = table_of(e, table);
    uint32_t size = (1 + t->spec->data_words) * (uint32_t)sizeof *head_and_data;
    return change_put(e, (struct place){&t->default_slot, 0}, head_and_data, size, 1, 0);
}

int engine_table_reset_default(struct engine *e, uint32_t table)
{
    const struct table_spec *spec = table_of(e, table)->spec;
    uint64_t words[1 + spec->data_words];
    words[0] = spec->default_head;
    memcpy(words + 1, spec->default_data, spec->data_words * sizeof *words);
    return engine_table_set_default(e, table, words);
}

/* --- batches --------------------------------------------------------------------------------- */

void engine_batch_begin(struct engine *e)
{
    e->lock.in_batch = true;
}

void engine_batch_commit(struct engine *e)
{
    uint64_t words = 0;
    e->lock.in_batch = false;
    for (uint32_t i = 0; i < program.tables; i++)
        table_before_commit(table_of(e, i));
    lock_take(&e->lock, HOLD_COMMIT);
    for (uint32_t i = 0; i < program.tables; i++)
        words += table_commit(table_of(e, i));
    words += change_commit(e);
    lock_give(&e->lock, words);
    change_finish(e);
    for (uint32_t i = 0; i < program.tables; i++)
        table_after_commit(table_of(e, i));
    profiles_settle(e, true);
}

void engine_batch_abort(struct engine *e)
{
    e->lock.in_batch = false;
    for (uint32_t i = 0; i < program.tables; i++)
        table_abort(table_of(e, i));
    change_abort(e);
    profiles_settle(e, false);
}

void engine_holds(struct engine *e, struct hold *out, bool forget)
{
    memcpy(out, e->lock.holds, sizeof e->lock.holds);
    if (forget)
        memset(e->lock.holds, 0, sizeof e->lock.holds);
}

void engine_packets_waited(struct engine *e, uint64_t out[2])
{
    lock_take(&e->lock, HOLD_SETTINGS);
    out[0] = e->lock.packets_waited;
    out[1] = e->lock.packets_waited_longest_ns;
    lock_give(&e->lock, 2);
}

/* --- counters, registers --------------------------------------------------------------------- */

static struct array *array_of(struct engine *e, enum array_kind kind, uint32_t number)
{
    return &(kind == ARRAY_COUNTER ? e->context.counters : e->context.registers)[number];
}

void engine_array_read(struct engine *e, enum array_kind kind, uint32_t number, uint64_t first,
                       uint64_t words, uint64_t *out)
{
    memset(out, 0, words * sizeof *out); /* page faults occur now, not while the lock is held */
    lock_take(&e->lock, HOLD_STATE);
    memcpy(out, array_of(e, kind, number)->words + first, words * sizeof *out);
    lock_give(&e->lock, words);
}

int engine_array_write(struct engine *e, enum array_kind kind, uint32_t number, uint64_t first,
                       uint32_t words, uint32_t count, const uint64_t *cell)
{
    struct place place = {&array_of(e, kind, number)->words, first * sizeof *cell};
    return change_put(e, place, cell, words * (uint32_t)sizeof *cell, count,
                      kind == ARRAY_COUNTER ? CHANGE_UNSEEN : 0);
}

/* --- meters ---------------------------------------------------------------------------------- */

/* Find a meter. Returns false if no entry has this handle. */
static bool find_meter(struct engine *e, bool direct, uint32_t number, int64_t index,
                       struct place *place)
{
    struct table *t = direct ? table_of(e, number) : NULL;
    if (direct && (!table_slot(t, index) || !t->meters))
        return false;
    void *all = direct ? &t->meters : &e->context.meters[number].meters;
    *place = (struct place){all, (uint32_t)index * sizeof(struct meter)};
    return true;
}

static struct bucket bucket(uint64_t rate, uint64_t burst)
{
    return (struct bucket){.rate = rate, .rate_per_us = (double)rate / 1e6, .burst = burst,
                           .tokens = burst};
}

int engine_meter_set(struct engine *e, bool direct, uint32_t number, int64_t index,
                     const struct meter_rates *rates)
{
    const size_t start = offsetof(struct meter, is_configured);
    struct place place;
    struct meter meter = {.is_configured = rates != NULL};
    if (!find_meter(e, direct, number, index, &place))
        return TABLE_NOT_FOUND;
    if (rates) {
        meter.committed = bucket(rates->committed_rate, rates->committed_burst);
        meter.peak = bucket(rates->peak_rate, rates->peak_burst);
    }
    place.offset += start;
    return change_put(e, place, (uint8_t *)&meter + start, sizeof meter - start, 1, 0);
}

int engine_meter_set_counts(struct engine *e, bool direct, uint32_t number, int64_t index,
                            const uint64_t *counts)
{
    struct place place;
    if (!find_meter(e, direct, number, index, &place))
        return TABLE_NOT_FOUND;
    return change_put(e, place, counts, COLOURS * sizeof(struct cell), 1, CHANGE_UNSEEN);
}

int engine_meter_get(struct engine *e, bool direct, uint32_t number, int64_t index,
                     struct meter_rates *rates, uint64_t *counts)
{
    struct place place;
    struct meter meter;
    if (!find_meter(e, direct, number, index, &place))
        return TABLE_NOT_FOUND;
    lock_take(&e->lock, HOLD_STATE);
    memcpy(&meter, *(uint8_t **)place.pointer + place.offset, sizeof meter);
    lock_give(&e->lock, sizeof meter / sizeof(uint64_t));
    *rates = (struct meter_rates){meter.committed.rate, meter.committed.burst, meter.peak.rate,
                                  meter.peak.burst};
    memcpy(counts, meter.counts, sizeof meter.counts);
    return meter.is_configured;
}

/* --- tests and benchmarks ---------------------------------------------------------------------- */

static void collect(void *user, uint16_t port, struct packet *packet, uint64_t now_ns)
{
    struct engine *e = user;
    phv_start(packet)->egress_port = port;
    packet->time_ns = now_ns;
    fifo_push(&e->collected, packet);
}

void engine_collect(struct engine *e, uint16_t ports)
{
    engine_set_driver(e, &(struct engine_driver){.user = e, .transmit = collect});
    engine_lock(e);
    for (uint16_t number = 0; number < ports; number++) {
        e->port[number].is_up = true;
        traffic_settle(e, &e->port[number]);
    }
    engine_unlock(e);
}

bool engine_inject(struct engine *e, uint16_t port, const uint8_t *frame, uint32_t length,
                   uint64_t now_ns)
{
    struct packet *packet = length <= PACKET_MAX_FRAME ? packet_take(e->pool) : NULL;
    if (!packet)
        return false;
    memcpy(packet->data, frame, length);
    packet->length = length;
    engine_receive(e, port, packet, now_ns, now_ns);
    return true;
}

int64_t engine_take(struct engine *e, uint16_t *port, uint8_t *frame, uint32_t room)
{
    if (!e->collected.count)
        return TABLE_NOT_FOUND;
    struct packet *packet = fifo_pop(&e->collected);
    uint32_t length = packet->length < room ? packet->length : room;
    *port = phv_start(packet)->egress_port;
    memcpy(frame, packet->data, length);
    packet_give(e->pool, packet);
    return length;
}

void engine_repeat(struct engine *e, uint16_t port, const uint8_t *frames, uint32_t length,
                   uint32_t count, uint32_t rounds, uint64_t now_ns)
{
    engine_set_driver(e, &(struct engine_driver){0});
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < count; i++)
            engine_inject(e, port, frames + (size_t)i * length, length, now_ns);
}
