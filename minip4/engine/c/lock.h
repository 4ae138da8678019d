/* The lock between packets and the control plane. Packets hold it for a batch of frames. The control
 * plane prepares what packets do not see without it, and holds it to read what packets write or to
 * change what they read: never for more than HOLD_WORDS words of memory, and never in Python. So no
 * operation on a table, however large, keeps packets waiting. How long it really was is noted. */
#ifndef MINIP4_LOCK_H
#define MINIP4_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HOLD_WORDS = 1 << 15, /* one copy at most: 256 KB */
    SLICE_LINES = 256,    /* cache lines here and there that a slice of a longer operation touches */
    SLICE_WORDS = 4096    /* words in a row */
};

/* What the control plane holds the lock for. */
enum hold_kind {
    HOLD_ENTRY,    /* an entry put in, changed or taken out; a larger table's parts put in place */
    HOLD_COMMIT,   /* a batch comes into force */
    HOLD_READ,     /* entries are copied out, or looked at for their age */
    HOLD_STATE,    /* counters, registers, meters, profiles, sessions, value sets, digests */
    HOLD_SETTINGS, /* ports, links, queues, and what they count */
    HOLD_KINDS
};

struct hold {
    uint64_t count, longest_ns;
    uint64_t longest_cpu_ns; /* less than longest_ns: the kernel gave the core to someone else */
    uint64_t max_words;     /* of memory that one hold touched */
};

struct lock {
    pthread_mutex_t turn, data; /* who holds the turn is next to get the data */
    bool in_batch;              /* the control plane prepares a batch: nothing of it is seen yet */
    enum hold_kind kind;        /* of the hold under way, and since when it is */
    uint64_t since_ns, since_cpu_ns;
    struct hold holds[HOLD_KINDS];
    uint64_t packets_waited, packets_waited_longest_ns; /* times that packets found it held */
};

void lock_create(struct lock *lock);
void lock_destroy(struct lock *lock);
void lock_take(struct lock *lock, enum hold_kind kind);
/* `words`: how many words of memory the hold was for. */
void lock_give(struct lock *lock, uint64_t words);
void lock_take_packets(struct lock *lock);
void lock_give_packets(struct lock *lock);

#endif
