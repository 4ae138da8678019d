/* What Python calls: tables, counters, registers, meters, profiles, groups, sessions, digests. */
#include "control.h"

#include <stdlib.h>

#include "engine_internal.h"

static struct table *table_of(struct engine *e, uint32_t table)
{
    return &e->context.tables[table];
}

int64_t engine_table_add(struct engine *e, uint32_t table, const uint64_t *key,
                         const uint64_t *mask, uint32_t prefix, int32_t priority,
                         const uint64_t *head_and_data, uint64_t now_ns)
{
    uint64_t since_ns = now_ns > e->context.now_ns ? now_ns : e->context.now_ns;
    return table_add(table_of(e, table), key, mask, prefix, priority, head_and_data, since_ns);
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

int64_t engine_table_next(struct engine *e, uint32_t table, uint32_t from)
{
    return table_next(table_of(e, table), from);
}

uint32_t engine_table_stride(struct engine *e, uint32_t table)
{
    return table_of(e, table)->stride;
}

uint64_t *engine_table_slot(struct engine *e, uint32_t table, int64_t handle, int32_t *priority)
{
    uint64_t *slot = table_slot(table_of(e, table), handle);
    if (slot)
        *priority = table_of(e, table)->info[(uint32_t)handle].priority;
    return slot;
}

uint64_t *engine_table_default(struct engine *e, uint32_t table)
{
    return table_of(e, table)->default_slot;
}

void engine_table_set_default(struct engine *e, uint32_t table, const uint64_t *head_and_data)
{
    table_set_default(table_of(e, table), head_and_data);
}

void engine_table_reset_default(struct engine *e, uint32_t table)
{
    table_reset_default(table_of(e, table));
}

uint64_t *engine_counter_cells(struct engine *e, uint32_t counter)
{
    return (uint64_t *)e->context.counters[counter].cells;
}

uint64_t *engine_register_words(struct engine *e, uint32_t number)
{
    return e->context.registers[number].words;
}

/* --- meters ---------------------------------------------------------------------------------- */

static struct meter *meter_of(struct engine *e, bool direct, uint32_t number, int64_t index)
{
    if (!direct)
        return &e->context.meters[number].meters[index];
    struct table *t = table_of(e, number);
    return table_slot(t, index) && t->meters ? &t->meters[(uint32_t)index] : NULL;
}

static struct bucket bucket(uint64_t rate, uint64_t burst, uint64_t now_us)
{
    return (struct bucket){.rate = rate, .rate_per_us = (double)rate / 1e6, .burst = burst,
                           .tokens = burst, .filled_us = now_us};
}

int engine_meter_set(struct engine *e, bool direct, uint32_t number, int64_t index,
                     const struct meter_rates *rates)
{
    struct meter *meter = meter_of(e, direct, number, index);
    if (!meter)
        return TABLE_NOT_FOUND;
    meter->is_configured = rates != NULL;
    if (!rates)
        return 0;
    uint64_t now_us = e->context.now_us;
    meter->committed = bucket(rates->committed_rate, rates->committed_burst, now_us);
    meter->peak = bucket(rates->peak_rate, rates->peak_burst, now_us);
    return 0;
}

int engine_meter_get(struct engine *e, bool direct, uint32_t number, int64_t index,
                     struct meter_rates *rates)
{
    const struct meter *meter = meter_of(e, direct, number, index);
    if (!meter)
        return TABLE_NOT_FOUND;
    rates->committed_rate = meter->committed.rate;
    rates->committed_burst = meter->committed.burst;
    rates->peak_rate = meter->peak.rate;
    rates->peak_burst = meter->peak.burst;
    return meter->is_configured;
}

uint64_t *engine_meter_counts(struct engine *e, bool direct, uint32_t number, int64_t index)
{
    struct meter *meter = meter_of(e, direct, number, index);
    return meter ? (uint64_t *)meter->counts : NULL;
}

/* --- action profiles, value sets --------------------------------------------------------------- */

int64_t engine_member_add(struct engine *e, uint32_t profile, const uint64_t *head_and_data)
{
    return profile_add_member(e->context.profiles[profile], head_and_data);
}

static bool has_member(const struct engine *e, uint32_t profile, uint32_t member)
{
    const struct profile *p = e->context.profiles[profile];
    return member < p->capacity && p->in_use[member];
}

static bool has_group(const struct engine *e, uint32_t profile, uint32_t group)
{
    const struct profile *p = e->context.profiles[profile];
    return group < p->group_count && p->groups[group].is_used;
}

int engine_member_modify(struct engine *e, uint32_t profile, uint32_t member,
                         const uint64_t *head_and_data)
{
    if (!has_member(e, profile, member))
        return TABLE_NOT_FOUND;
    profile_set_member(e->context.profiles[profile], member, head_and_data);
    return 0;
}

int engine_member_delete(struct engine *e, uint32_t profile, uint32_t member)
{
    if (!has_member(e, profile, member))
        return TABLE_NOT_FOUND;
    profile_delete_member(e->context.profiles[profile], member);
    return 0;
}

int64_t engine_group_add(struct engine *e, uint32_t profile)
{
    return profile_add_group(e->context.profiles[profile]);
}

int engine_group_set(struct engine *e, uint32_t profile, uint32_t group, const uint32_t *members,
                     uint32_t count)
{
    if (!has_group(e, profile, group))
        return TABLE_NOT_FOUND;
    for (uint32_t i = 0; i < count; i++)
        if (!has_member(e, profile, members[i]))
            return TABLE_NOT_FOUND;
    return profile_set_group(e->context.profiles[profile], group, members, count);
}

int engine_group_delete(struct engine *e, uint32_t profile, uint32_t group)
{
    if (!has_group(e, profile, group))
        return TABLE_NOT_FOUND;
    profile_delete_group(e->context.profiles[profile], group);
    return 0;
}

int engine_value_set(struct engine *e, uint32_t value_set, const uint64_t *words, uint32_t count)
{
    return value_set_put(e->context.value_sets[value_set], words, count);
}

/* --- replication ------------------------------------------------------------------------------- */

/* Where the replicas of a group or session hang; NULL: none has ever been set. */
static struct replicas **replicas_of(struct engine *e, bool is_session, uint32_t number)
{
    struct replicas **all = is_session ? e->sessions : e->groups;
    return all ? &all[number & ((is_session ? MAX_SESSIONS : MAX_GROUPS) - 1)] : NULL;
}

static bool make_replicas(struct engine *e, bool is_session)
{
    struct replicas ***all = is_session ? &e->sessions : &e->groups;
    if (!*all)
        *all = calloc(is_session ? MAX_SESSIONS : MAX_GROUPS, sizeof **all);
    return *all != NULL;
}

int engine_replicas_set(struct engine *e, bool is_session, uint32_t number,
                        const uint16_t *replicas, uint32_t count, uint32_t truncate_to)
{
    struct replicas *r = malloc(sizeof *r + count * sizeof r->item[0]);
    if (!r || !make_replicas(e, is_session)) {
        free(r);
        return TABLE_NO_MEMORY;
    }
    r->count = count;
    r->truncate_to = truncate_to;
    for (uint32_t i = 0; i < count; i++)
        r->item[i] = (struct replica){replicas[2 * i], replicas[2 * i + 1]};
    struct replicas **place = replicas_of(e, is_session, number);
    free(*place);
    *place = r;
    return 0;
}

int64_t engine_replicas_get(struct engine *e, bool is_session, uint32_t number, uint16_t *replicas,
                            uint32_t room, uint32_t *truncate_to)
{
    struct replicas **place = replicas_of(e, is_session, number);
    const struct replicas *r = place ? *place : NULL;
    if (!r)
        return TABLE_NOT_FOUND;
    for (uint32_t i = 0; i < r->count && i < room; i++) {
        replicas[2 * i] = r->item[i].port;
        replicas[2 * i + 1] = r->item[i].rid;
    }
    *truncate_to = r->truncate_to;
    return r->count;
}

int engine_replicas_delete(struct engine *e, bool is_session, uint32_t number)
{
    struct replicas **place = replicas_of(e, is_session, number);
    if (!place || !*place)
        return TABLE_NOT_FOUND;
    free(*place);
    *place = NULL;
    return 0;
}

/* --- digests, hashes --------------------------------------------------------------------------- */

bool engine_digest_next(struct engine *e, struct digest_sample *out)
{
    if (!e->digest_count)
        return false;
    *out = e->digests[e->digest_first];
    e->digest_first = (e->digest_first + 1) % MAX_DIGESTS;
    e->digest_count--;
    return true;
}

void engine_crc_custom(struct engine *e, uint32_t which, const struct crc_custom *settings)
{
    e->context.crc[which] = *settings;
}

/* --- tests and benchmarks ---------------------------------------------------------------------- */

static void collect(void *user, uint16_t port, struct packet *packet, uint64_t now_ns)
{
    struct engine *e = user;
    phv_start(packet)->egress_port = port;
    packet->time_ns = now_ns;
    fifo_push(&e->collected, packet);
}

void engine_collect(struct engine *e)
{
    engine_set_driver(e, &(struct engine_driver){.user = e, .transmit = collect});
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
