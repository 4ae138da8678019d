/* Limits of how far partitions may advance, derived from their clocks and messages. */
#define _GNU_SOURCE
#include <sched.h>

#include "threads.h"

void partition_be_quiet(struct partition *p, uint64_t next_ns)
{
    if (atomic_load(&p->version) % 2)
        return;
    atomic_store(&p->quiet_next_ns, next_ns);
    atomic_fetch_add(&p->version, 1);
}

void partition_be_busy(struct partition *p)
{
    if (atomic_load_explicit(&p->version, memory_order_relaxed) % 2)
        atomic_fetch_add(&p->version, 1);
}

void threads_jump(struct virtual *v)
{
    struct threads *threads = v->threads;
    uint64_t next_ns = UINT64_MAX, sent = 0, received = 0, versions = 0;
    for (uint32_t i = 0; i < v->partitions; i++) {
        struct partition *p = v->partition[i];
        uint64_t version = atomic_load(&p->version);
        if (version % 2 == 0)
            return;
        versions += version;
        next_ns = time_least(next_ns, atomic_load(&p->quiet_next_ns));
        sent += atomic_load(&p->sent);
        received += atomic_load(&p->received);
    }
    for (uint32_t i = 0; i < v->partitions; i++)
        versions -= atomic_load(&v->partition[i]->version);
    if (!versions && sent == received && next_ns > atomic_load(&threads->floor_ns))
        atomic_store(&threads->floor_ns, next_ns);
}

void partition_receive(struct partition *p)
{
    struct virtual *v = p->v;
    for (uint32_t i = 0; i < v->partitions; i++) {
        struct channel *channel = channel_between(v, i, p->number);
        if (channel && channel_waits(channel)) {
            partition_be_busy(p);
            uint32_t count = channel_receive(channel, p);
            atomic_fetch_add(&p->received, count);
        }
    }
}

uint64_t partition_safe_before(struct partition *p)
{
    struct virtual *v = p->v;
    uint64_t before = UINT64_MAX, floor_ns = atomic_load(&v->threads->floor_ns);
    for (uint32_t i = 0; i < v->partitions; i++) {
        uint64_t lookahead_ns = *lookahead_between(v, i, p->number);
        if (i == p->number || lookahead_ns == UINT64_MAX)
            continue;
        uint64_t clock_ns = atomic_load_explicit(&v->partition[i]->clock_ns, memory_order_acquire);
        before = time_least(before, time_plus(clock_ns > floor_ns ? clock_ns : floor_ns, lookahead_ns));
    }
    /* Read the clocks first, and then receive messages. So all messages that were sent before the
     * read times have arrived. */
    partition_receive(p);
    return before;
}

void partition_send(struct partition *p, uint16_t to, const struct arrival *arrival, uint64_t due_ns)
{
    struct virtual *v = p->v;
    struct partition *other = v->partition[to];
    if (!v->threads->is_parallel) {
        partition_take_in(other, arrival, due_ns);
        /* Take a spare packet of the other partition. Otherwise, this partition might run out of
         * packets. */
        struct packet *spare = packet_lend(other->pool);
        if (spare)
            packet_give(p->pool, spare);
        return;
    }
    struct channel *channel = channel_between(v, p->number, to);
    /* Receive while waiting, because the other partition may also wait for this one. */
    while (channel_is_full(channel)) {
        partition_receive(p);
        sched_yield();
    }
    channel_send(channel, p->pool, arrival, due_ns);
    atomic_store_explicit(&p->sent, atomic_load_explicit(&p->sent, memory_order_relaxed) + 1,
                          memory_order_release);
}
