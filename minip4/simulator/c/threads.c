/* Runs the partitions of a network on several threads, without a common clock (conservative
 * synchronization: Chandy, Misra, Bryant). Each partition publishes its time. A frame to another
 * partition takes at least the lookahead: the minimum delay of the links between the two
 * partitions. So the other partition may process all events before the sum of the published time
 * and the lookahead. Since the order of events does not depend on partitions, results equal those
 * of a single thread. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "threads.h"

enum {
    /* polls of the other partitions' clocks before the thread yields the core */
    PATIENCE = 64,
    /* a parallel run ends early if a partition has waited longer than this time plus PACE_MUCH of
     * the run's time */
    LONG_WAIT_NS = 1000000,
    ALONE_EVENTS = 512   /* events that one thread processes before it wakes the others */
};

static uint64_t real_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* --- work of one thread in a run -------------------------------------------------------------- */

/* Record why a partition has ended early. */
static void note_stop(struct partition *p, enum virtual_stop stop)
{
    struct threads *threads = p->v->threads;
    if (stop == VIRTUAL_CONTROL || stop == VIRTUAL_INBOX)
        atomic_store(&threads->before_ns, p->now_ns); /* the others advance only to this time */
    else
        atomic_store(&threads->quits, stop);
}

/* Process the permitted events. Returns the time of this partition. */
static uint64_t go_on(struct partition *p, uint64_t before_ns)
{
    uint64_t next_ns = p->arrival_count ? p->now_ns : partition_next_ns(p);
    if (next_ns < before_ns || partition_stop(p) != VIRTUAL_REACHED) {
        partition_be_busy(p);
        enum virtual_stop stop = partition_run(p, before_ns - 1, p->last);
        if (stop != VIRTUAL_REACHED) {
            note_stop(p, stop);
            return p->now_ns;
        }
        next_ns = partition_next_ns(p);
    }
    return time_least(next_ns, before_ns);
}

/* Pause briefly in a polling loop. */
static void rest(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait briefly, after `count` attempts to process an event. */
static void wait_a_little(struct partition *p, uint32_t count)
{
    bool is_parallel = p->v->threads->is_parallel;
    if (count < (is_parallel ? PATIENCE : 1)) {
        rest();
        return;
    }
    partition_be_quiet(p, p->arrival_count ? p->now_ns : partition_next_ns(p));
    if (p->number == 0)
        threads_jump(p->v);
    if (is_parallel)
        sched_yield();
}

/* End a parallel run early if a partition has waited for too long, because a sequential run may
 * be faster. */
static void end_slow_run(struct partition *p, uint64_t now_ns)
{
    struct threads *threads = p->v->threads;
    uint64_t waited_ns = p->waited_ns - p->wait.before_ns + now_ns - p->wait.since_ns;
    uint64_t allowed_ns = LONG_WAIT_NS + (uint64_t)(PACE_MUCH * (double)(now_ns - threads->began_ns));
    int goes_on = VIRTUAL_REACHED;
    if (threads->is_parallel && !threads->stays_parallel && waited_ns > allowed_ns &&
        atomic_compare_exchange_strong(&threads->quits, &goes_on, VIRTUAL_PAUSED))
        atomic_store(&threads->was_slow, true);
}

/* Measure the time that a partition waits, in real time; very short waits are not measured. */
static void note_wait(struct partition *p, bool goes_on)
{
    struct poll_wait *wait = &p->wait;
    if (goes_on) {
        p->waited_ns += wait->since_ns ? real_ns() - wait->since_ns : 0;
        *wait = (struct poll_wait){.before_ns = wait->before_ns, .is_done = wait->is_done};
    } else if (++wait->count == PATIENCE) {
        wait->since_ns = real_ns();
    } else if (wait->count > PATIENCE) {
        end_slow_run(p, real_ns());
    }
}

/* Receive the messages of a partition and process its permitted events. */
static void take_turn(struct partition *p)
{
    struct threads *threads = p->v->threads;
    uint64_t events = p->event_count;
    uint64_t safe_ns = partition_safe_before(p), end_ns = atomic_load(&threads->before_ns);
    bool quits = atomic_load(&threads->quits) != VIRTUAL_REACHED;
    uint64_t clock_ns = quits ? end_ns : go_on(p, time_least(safe_ns, end_ns));
    if (!quits)
        atomic_store_explicit(&p->clock_ns, clock_ns, memory_order_release);
    if (!p->wait.is_done && clock_ns >= atomic_load(&threads->before_ns)) {
        p->wait.is_done = true;
        atomic_fetch_add(&threads->done, 1);
    }
    note_wait(p, p->event_count != events);
    if (p->event_count == events)
        wait_a_little(p, p->wait.count);
}

/* Run one partition. Receives messages until all partitions have ended. */
static void take_part(struct partition *p)
{
    while (atomic_load(&p->v->threads->done) < p->v->partitions)
        take_turn(p);
    note_wait(p, true);
}

static void *work(void *user)
{
    struct partition *p = user;
    struct threads *threads = p->v->threads;
    uint64_t runs = 0;
    pthread_mutex_lock(&threads->lock);
    for (;;) {
        while (threads->runs == runs && !threads->is_over)
            pthread_cond_wait(&threads->begins, &threads->lock);
        if (threads->is_over)
            break;
        runs = threads->runs;
        pthread_mutex_unlock(&threads->lock);
        take_part(p);
        pthread_mutex_lock(&threads->lock);
        if (++threads->ended == threads->workers)
            pthread_cond_signal(&threads->ends);
    }
    pthread_mutex_unlock(&threads->lock);
    return NULL;
}

/* --- runs -------------------------------------------------------------------------------------------- */

/* Run each partition on its own thread. */
static void run_at_once(struct virtual *v)
{
    struct threads *threads = v->threads;
    threads->is_parallel = true;
    pthread_mutex_lock(&threads->lock);
    threads->runs++;
    threads->ended = 0;
    pthread_cond_broadcast(&threads->begins);
    pthread_mutex_unlock(&threads->lock);
    take_part(v->partition[0]);
    pthread_mutex_lock(&threads->lock);
    while (threads->ended < threads->workers)
        pthread_cond_wait(&threads->ends, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
    threads->is_parallel = false;
    for (uint32_t i = 0; i < v->partitions; i++)
        partition_receive(v->partition[i]);
}

/* Run all partitions sequentially on this thread. A sequential run is cheaper if each partition can
 * process only few events before it must wait. */
static void run_in_turn(struct virtual *v)
{
    while (atomic_load(&v->threads->done) < v->partitions)
        for (uint32_t i = 0; i < v->partitions; i++)
            take_turn(v->partition[i]);
}

/* Return the total waiting time of all partitions. */
static uint64_t waited_ns(const struct virtual *v)
{
    uint64_t all_ns = 0;
    for (uint32_t i = 0; i < v->partitions; i++)
        all_ns += v->partition[i]->waited_ns;
    return all_ns;
}

/* Run all partitions up to a time; may end earlier, as partition_run() does. Parallel and
 * sequential runs have the same results. The mode that was faster recently is used; occasionally,
 * the other mode is tried. */
static void run_together(struct virtual *v, uint64_t before_ns, uint64_t max_events)
{
    struct threads *threads = v->threads;
    uint64_t first_ns = virtual_next(v), events = virtual_events(v);
    uint64_t waits_ns = waited_ns(v);
    for (uint32_t i = 0; i < v->partitions; i++) {
        struct partition *p = v->partition[i];
        p->last = time_plus(p->event_count, max_events / v->partitions + 1);
        p->wait = (struct poll_wait){.before_ns = p->waited_ns};
        atomic_store(&p->clock_ns, first_ns);
    }
    atomic_store(&threads->floor_ns, 0);
    atomic_store(&threads->before_ns, before_ns);
    atomic_store(&threads->quits, VIRTUAL_REACHED);
    atomic_store(&threads->was_slow, false);
    atomic_store(&threads->done, 0);
    bool in_turn = !threads->stays_parallel && pace_wants_turns(&threads->pace);
    threads->began_ns = real_ns();
    if (in_turn)
        run_in_turn(v);
    else
        run_at_once(v);
    for (uint32_t i = 0; i < v->partitions; i++)
        partition_be_busy(v->partition[i]);
    events = virtual_events(v) - events;
    threads->at_once += in_turn ? 0 : events;
    uint64_t took_ns = real_ns() - threads->began_ns;
    double waited = (double)(waited_ns(v) - waits_ns) / ((double)took_ns * v->partitions);
    pace_note(&threads->pace, took_ns, waited, events, atomic_load(&threads->was_slow));
}

/* Return the partition with the first event, or NULL if no event is queued. */
static struct partition *first_of(struct virtual *v, struct moment *first)
{
    struct partition *found = NULL;
    for (uint32_t i = 0; i < v->partitions; i++) {
        struct moment moment = partition_moment(v->partition[i]);
        if (moment.time_ns != UINT64_MAX && (!found || moment_is_before(&moment, first))) {
            found = v->partition[i];
            *first = moment;
        }
    }
    return found;
}

/* Process the first event of a partition and its immediate consequences. */
static void step(struct partition *p, uint64_t time_ns, uint64_t *left)
{
    do {
        partition_run(p, time_ns, p->event_count + 1);
    } while (--*left && p->arrival_count && !p->is_short);
}

/* Process single events in the order of all partitions. Also ends when the partition that may stop
 * the network has stopped it and the other partitions have reached the same time. */
static enum virtual_stop run_alone(struct virtual *v, uint64_t until_ns, uint64_t max_events)
{
    struct partition *stops = v->partition[0];
    uint64_t left = max_events;
    struct moment first;
    for (uint32_t i = 0; i < v->partitions; i++) /* packets added while no thread ran are due now */
        while (v->partition[i]->arrival_count && left && !v->partition[i]->is_short)
            step(v->partition[i], 0, &left);
    while (left && !virtual_is_short(v)) {
        enum virtual_stop wanted = partition_stop(stops);
        struct partition *p = first_of(v, &first);
        if (wanted != VIRTUAL_REACHED && (!p || !moment_is_before(&first, &stops->moment)))
            return wanted;
        if (!p || first.time_ns > until_ns)
            return VIRTUAL_REACHED;
        step(p, first.time_ns, &left);
    }
    return virtual_is_short(v) ? VIRTUAL_SHORT : VIRTUAL_PAUSED;
}

/* Advance all partitions to the same time. */
static void set_now(struct virtual *v, uint64_t now_ns)
{
    v->now_ns = now_ns;
    for (uint32_t i = 0; i < v->partitions; i++)
        v->partition[i]->now_ns = now_ns;
    v->partition[0]->moment = (struct moment){.time_ns = now_ns};
}

static uint64_t now_of(const struct virtual *v, bool is_last)
{
    uint64_t now_ns = v->partition[0]->now_ns;
    for (uint32_t i = 1; i < v->partitions; i++)
        if (is_last == (v->partition[i]->now_ns > now_ns))
            now_ns = v->partition[i]->now_ns;
    return now_ns;
}

/* Set the time at the end of a run. */
static enum virtual_stop ended(struct virtual *v, enum virtual_stop stop, uint64_t until_ns)
{
    if (stop == VIRTUAL_REACHED)
        set_now(v, until_ns == UINT64_MAX ? now_of(v, true) : until_ns);
    else if (stop == VIRTUAL_CONTROL || stop == VIRTUAL_INBOX)
        set_now(v, v->partition[0]->now_ns);
    else
        v->now_ns = now_of(v, false);
    return virtual_is_short(v) ? VIRTUAL_SHORT : stop;
}

enum virtual_stop threads_meet(struct virtual *v, uint64_t max_events)
{
    uint64_t last_ns = now_of(v, true);
    if (now_of(v, false) == last_ns)
        return VIRTUAL_REACHED;
    return ended(v, run_alone(v, last_ns, max_events), last_ns);
}

enum virtual_stop threads_run(struct virtual *v, uint64_t until_ns, uint64_t max_events)
{
    uint64_t last = time_plus(virtual_events(v), max_events);
    enum virtual_stop stop = run_alone(v, until_ns, time_least(max_events, ALONE_EVENTS));
    while (stop == VIRTUAL_PAUSED && virtual_events(v) < last && !virtual_is_uneven(v)) {
        run_together(v, time_plus(until_ns, 1), time_least(last - virtual_events(v), PACE_EVENTS));
        stop = (enum virtual_stop)atomic_load(&v->threads->quits);
        if (stop == VIRTUAL_REACHED && partition_stop(v->partition[0]) != VIRTUAL_REACHED)
            stop = run_alone(v, until_ns, max_events);
    }
    return ended(v, stop, until_ns);
}

/* --- threads ------------------------------------------------------------------------------------------ */

/* Returns false if out of memory, or if a thread cannot be created. */
bool threads_create(struct virtual *v)
{
    uint32_t count = v->partitions;
    struct threads *threads = v->threads = memory_take(sizeof *threads);
    if (!threads)
        return false;
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->begins, NULL);
    pthread_cond_init(&threads->ends, NULL);
    threads->lookahead_ns = calloc((size_t)count * count, sizeof *threads->lookahead_ns);
    threads->channel = calloc((size_t)count * count, sizeof *threads->channel);
    threads->worker = calloc(count, sizeof *threads->worker);
    if (!threads->lookahead_ns || !threads->channel || !threads->worker)
        return false;
    while (threads->workers + 1 < count) {
        if (pthread_create(&threads->worker[threads->workers], NULL, work,
                           v->partition[threads->workers + 1]))
            return false;
#ifdef __linux__ /* on macOS, a thread can only name itself */
        pthread_setname_np(threads->worker[threads->workers], "minip4-virtual");
#endif
        threads->workers++;
    }
    return true;
}

void threads_destroy(struct virtual *v)
{
    struct threads *threads = v->threads;
    if (!threads)
        return;
    pthread_mutex_lock(&threads->lock);
    threads->is_over = true;
    pthread_cond_broadcast(&threads->begins);
    pthread_mutex_unlock(&threads->lock);
    for (uint32_t i = 0; i < threads->workers; i++)
        pthread_join(threads->worker[i], NULL);
    for (uint32_t i = 0; threads->channel && i < v->partitions * v->partitions; i++)
        memory_give(threads->channel[i], sizeof *threads->channel[i]);
    free(threads->worker);
    free(threads->channel);
    free(threads->lookahead_ns);
    pthread_cond_destroy(&threads->begins);
    pthread_cond_destroy(&threads->ends);
    pthread_mutex_destroy(&threads->lock);
    memory_give(threads, sizeof *threads);
    v->threads = NULL;
}
