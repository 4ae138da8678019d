/* The lock between packets and the control plane. Packets hold it for a batch of frames. The
 * control plane prepares invisible changes without the lock. It holds the lock to read data that
 * packets write, or to change data that packets read. During one hold, it accesses at most
 * HOLD_WORDS words of memory and never runs Python code. So no operation on a table of any size
 * delays packets for long. The hold times are measured. */
#ifndef MINIP4_LOCK_H
#define MINIP4_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HOLD_WORDS = 1 << 15, /* 256 KB, the size of the largest single copy */
    SLICE_LINES = 256,    /* scattered cache lines accessed per slice of a longer operation */
    SLICE_WORDS = 4096    /* number of contiguous words accessed per slice */
};

/* The purposes for which the control plane holds the lock. */
enum hold_kind {
    HOLD_ENTRY,    /* an entry is added, changed or removed; parts of a resized table are replaced */
    HOLD_COMMIT,   /* a batch takes effect */
    HOLD_READ,     /* entries are copied or checked for idle timeouts */
    HOLD_STATE,    /* counters, registers, meters, profiles, sessions, value sets, digests */
    HOLD_SETTINGS, /* ports, links, queues and their counters */
    HOLD_KINDS
};

struct hold {
    uint64_t count, longest_ns;
    uint64_t longest_cpu_ns; /* longest CPU time of a hold, without other threads' time */
    uint64_t max_words;     /* maximum amount of memory accessed in one hold */
};

struct lock {
    pthread_mutex_t turn, data; /* a thread that holds the turn gets the data next */
    bool in_batch;              /* the control plane prepares a batch; packets do not see it yet */
    enum hold_kind kind;        /* kind and start of the current hold */
    uint64_t since_ns, since_cpu_ns;
    struct hold holds[HOLD_KINDS];
    /* number of times that packets waited for the lock, and the longest wait */
    uint64_t packets_waited, packets_waited_longest_ns;
};

void lock_create(struct lock *lock);
void lock_destroy(struct lock *lock);
void lock_take(struct lock *lock, enum hold_kind kind);
/* End a hold that accessed `words` words of memory. */
void lock_give(struct lock *lock, uint64_t words);
void lock_take_packets(struct lock *lock);
void lock_give_packets(struct lock *lock);

#endif
