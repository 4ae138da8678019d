/* Creation and destruction of the engine, and its lock. */
#include <stdlib.h>

#include "control.h"
#include "engine_internal.h"

static const size_t backlogs_size = (ENGINE_MAX_PORTS + 1) * sizeof(struct backlog);

/* Tables are in memory directly after the engine. So their addresses need not be looked up. */
static struct table *tables_of(const struct engine *e)
{
    return (struct table *)(void *)(e + 1);
}

static size_t engine_size(void)
{
    return sizeof(struct engine) + program.tables * sizeof(struct table);
}

static bool create_tables(struct engine *e)
{
    struct context *c = &e->context;
    c->tables = tables_of(e);
    c->profiles = calloc(program.profiles + 1, sizeof(struct profile *));
    c->value_sets = calloc(program.value_sets + 1, sizeof(struct value_set *));
    if (!c->profiles || !c->value_sets)
        return false;
    for (uint32_t i = 0; i < program.tables; i++)
        if (!table_create(&c->tables[i], &program.table[i], &e->lock))
            return false;
    for (uint32_t i = 0; i < program.profiles; i++)
        if (!(c->profiles[i] = profile_create(&program.profile[i])))
            return false;
    for (uint32_t i = 0; i < program.value_sets; i++) {
        if (!(c->value_sets[i] = calloc(1, sizeof *c->value_sets[i])))
            return false;
        c->value_sets[i]->words = program.value_set_words[i];
    }
    return true;
}

static bool create_state(struct engine *e)
{
    struct context *c = &e->context;
    c->registers = array_create(program.reg, program.registers, sizeof(uint64_t));
    c->counters = array_create(program.counter, program.counters, sizeof(struct cell));
    c->meters = array_create(program.meter, program.meters, sizeof(struct meter));
    e->scratch = malloc(program.phv_size);
    e->pool = packet_pool_create(program.phv_size);
    if (!c->registers || !c->counters || !c->meters || !e->scratch || !e->pool)
        return false;
#ifdef MINIP4_TRACE
    if (!(c->trace = trace_create(program.phv_size)))
        return false;
#endif
    return true;
}

struct engine *engine_create(const struct engine_driver *driver, uint64_t seed)
{
    struct engine *e = memory_take(engine_size());
    if (!e)
        return NULL;
    lock_create(&e->lock);
    if (driver)
        e->driver = *driver;
    e->priorities = 1;
    e->cpu_port = 64; /* of Tofino models with one pipe */
    e->next_due_ns = e->again_due_ns = UINT64_MAX;
    for (uint32_t i = 0; i < ENGINE_MAX_PORTS; i++)
        e->port[i].number = (uint16_t)i;
    random_seed(e->context.random, seed);
    e->backlog = memory_take_sparse(backlogs_size);
    if (e->backlog && create_tables(e) && create_state(e))
        return e;
    engine_destroy(e);
    return NULL;
}

static void destroy_tables(struct context *c)
{
    for (uint32_t i = 0; c->tables && i < program.tables; i++)
        table_destroy(&c->tables[i]);
    for (uint32_t i = 0; c->profiles && i < program.profiles; i++)
        profile_destroy(c->profiles[i]);
    for (uint32_t i = 0; c->value_sets && i < program.value_sets; i++)
        if (c->value_sets[i]) {
            free(c->value_sets[i]->values.words);
            free(c->value_sets[i]);
        }
    free(c->profiles);
    free(c->value_sets);
}

static void give_packets(struct engine *e, struct fifo *fifo)
{
    while (fifo->count)
        packet_give(e->pool, fifo_pop(fifo));
}

/* Return the packets in queues and links to the pool. */
static void release_packets(struct engine *e)
{
    for (uint32_t i = 0; i < ENGINE_MAX_PORTS; i++) {
        for (uint32_t priority = 0; e->port[i].waiting && priority < ENGINE_MAX_PRIORITIES;
             priority++)
            give_packets(e, &e->backlog[i].queue[priority].packets);
        if (has_link(&e->port[i]))
            link_close(&e->port[i].link);
    }
    give_packets(e, &e->again);
    give_packets(e, &e->collected);
}

static void free_replicas(struct replicas **list, uint32_t count)
{
    for (uint32_t i = 0; list && i < count; i++)
        if (list[i]) /* nearly all are NULL, and free() is slow with AddressSanitizer */
            free(list[i]);
    free(list);
}

void engine_destroy(struct engine *e)
{
    if (!e)
        return;
    if (e->lock.in_batch)
        engine_batch_abort(e);
    release_packets(e);
    destroy_tables(&e->context);
    array_destroy(e->context.registers, program.registers);
    array_destroy(e->context.counters, program.counters);
    array_destroy(e->context.meters, program.meters);
    free_replicas(e->groups, MAX_GROUPS);
    free_replicas(e->sessions, MAX_SESSIONS);
    free(e->digests);
    free(e->scratch);
#ifdef MINIP4_TRACE
    trace_destroy(e->context.trace);
#endif
    if (!e->is_pool_shared)
        packet_pool_destroy(e->pool);
    lock_destroy(&e->lock);
    memory_give_sparse(e->backlog, backlogs_size);
    memory_give(e, engine_size());
}

void engine_prefetch(const struct engine *e, uint16_t port)
{
    __builtin_prefetch(e, 1);
    __builtin_prefetch(&e->context, 1);
    if (program.registers + program.counters + program.meters)
        __builtin_prefetch(&e->context.registers);
    __builtin_prefetch(e->open);
    __builtin_prefetch(&e->received[port & (ENGINE_MAX_PORTS - 1)], 1);
    for (uint32_t i = 0; i < program.tables; i++)
        __builtin_prefetch(tables_of(e) + i);
}

void engine_prefetch_more(const struct engine *e, uint16_t port)
{
    __builtin_prefetch(&e->port[port & (ENGINE_MAX_PORTS - 1)].link, 1);
    for (uint32_t i = 0; i < program.tables; i++)
        table_prefetch(tables_of(e) + i);
}

struct packet_pool *engine_pool(struct engine *e)
{
    return e->pool;
}

void engine_share_pool(struct engine *e, struct packet_pool *pool)
{
    packet_pool_widen(pool, program.phv_size);
    if (!e->is_pool_shared)
        packet_pool_destroy(e->pool);
    e->pool = pool;
    e->is_pool_shared = true;
}

void engine_move_pool(struct engine *e, struct packet_pool *pool)
{
    if (e->pool == pool)
        return;
    e->pool = pool;
    for (uint32_t i = 0; i < ENGINE_MAX_PORTS; i++)
        if (has_link(&e->port[i]))
            link_move_pool(&e->port[i].link, pool);
}

uint64_t engine_lookahead(const struct engine *e, uint16_t port)
{
    return has_link(&e->port[port]) ? link_lookahead_ns(&e->port[port].link) : 0;
}

void engine_set_driver(struct engine *e, const struct engine_driver *driver)
{
    e->driver = *driver;
}

void engine_lock(struct engine *e)
{
    lock_take(&e->lock, HOLD_SETTINGS);
}

void engine_lock_dataplane(struct engine *e)
{
    lock_take_packets(&e->lock);
}

void engine_unlock(struct engine *e)
{
    lock_give(&e->lock, 0);
}

void engine_unlock_dataplane(struct engine *e)
{
    lock_give_packets(&e->lock);
}
