/* The lock: two mutexes, one for the data and one for the turn. A thread holds the turn while it
 * waits for the data. So if the data plane immediately locks again, it must wait until a waiting
 * control plane has held the data. */
#include "lock.h"

#include <time.h>

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void lock_create(struct lock *lock)
{
    pthread_mutex_init(&lock->turn, NULL);
    pthread_mutex_init(&lock->data, NULL);
}

void lock_destroy(struct lock *lock)
{
    pthread_mutex_destroy(&lock->turn);
    pthread_mutex_destroy(&lock->data);
}

static void take(struct lock *lock)
{
    pthread_mutex_lock(&lock->turn);
    pthread_mutex_lock(&lock->data);
    pthread_mutex_unlock(&lock->turn);
}

void lock_take(struct lock *lock, enum hold_kind kind)
{
    take(lock);
    lock->kind = kind;
    lock->since_ns = now_ns(CLOCK_MONOTONIC);
    lock->since_cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
}

void lock_give(struct lock *lock, uint64_t words)
{
    struct hold *hold = &lock->holds[lock->kind];
    uint64_t ns = now_ns(CLOCK_MONOTONIC) - lock->since_ns;
    hold->count++;
    hold->longest_ns = larger(hold->longest_ns, ns);
    /* reading the CPU time is a system call, so read it only if it may be a new maximum */
    if (ns > hold->longest_cpu_ns) {
        uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - lock->since_cpu_ns;
        hold->longest_cpu_ns = larger(hold->longest_cpu_ns, cpu_ns);
    }
    hold->max_words = larger(hold->max_words, words);
    pthread_mutex_unlock(&lock->data);
}

/* Read the clock only if packets must wait. */
void lock_take_packets(struct lock *lock)
{
    if (!pthread_mutex_trylock(&lock->turn)) {
        bool is_free = !pthread_mutex_trylock(&lock->data);
        pthread_mutex_unlock(&lock->turn);
        if (is_free)
            return;
    }
    uint64_t start_ns = now_ns(CLOCK_MONOTONIC);
    take(lock);
    lock->packets_waited++;
    lock->packets_waited_longest_ns =
        larger(lock->packets_waited_longest_ns, now_ns(CLOCK_MONOTONIC) - start_ns);
}

void lock_give_packets(struct lock *lock)
{
    pthread_mutex_unlock(&lock->data);
}
