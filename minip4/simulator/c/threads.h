/* Data shared by the partitions of a network, each with its own thread. */
#ifndef MINIP4_THREADS_H
#define MINIP4_THREADS_H

#include <pthread.h>

#include "virtual_internal.h"

enum {
    CHANNEL_ROOM = 256,  /* in frames; a power of two */
    MESSAGE_FRAME = 192, /* in bytes; the message points to the packet of a longer frame */
    MESSAGES_AHEAD = 4   /* messages prefetched while one is received */
};

/* A frame from one partition to another. A packet is in the cache of the core that wrote it, and
 * the receiving core fetches its cache lines one by one. Therefore a short frame is copied into the
 * message, which has only few cache lines. The receiver may leave a packet in a slot that it has
 * read, in exchange for a packet that it received. */
struct message {
    /* if its `packet` is NULL, the frame is in this message */
    _Alignas(CACHE_LINE) struct arrival arrival;
    uint64_t due_ns;
    struct packet *spare;
    uint32_t room;                 /* free bytes before the frame in the buffer of its packet */
    uint32_t length, source, hops; /* fields of the packet */
    uint8_t frame[MESSAGE_FRAME];
};

/* A lock-free ring from one partition to another, with one sender and one receiver. */
struct channel {
    struct message message[CHANNEL_ROOM];
    _Alignas(CACHE_LINE) _Atomic uint32_t sent;
    uint32_t seen_received; /* sender's copy of `received` */
    _Alignas(CACHE_LINE) _Atomic uint32_t received;
};

/* if threads wait for more than this fraction of the time, a sequential run may be faster */
#define PACE_MUCH 0.25

enum { PACE_RECENT = 3 /* runs */ };

/* The costs of parallel and of sequential runs, and the mode of the next run. */
struct pace {
    bool in_turn;          /* the next run is sequential */
    /* sequential runs are faster; false if they are slower or were not tried */
    bool turns_are_better;
    uint32_t runs;         /* number of runs since the mode changed */
    uint32_t interval;     /* number of runs in the faster mode before the other mode is tried */
    /* cost per event of the latest runs since the mode changed */
    double latest_cost_ns[PACE_RECENT];
    double latest_waited[PACE_RECENT];  /* fraction of the threads' time spent waiting */
    double cost_ns[2];     /* latest cost per event, parallel and sequential; 0: not measured */
    /* in the latest parallel runs, the threads waited for much of the time */
    bool has_waited;
};

enum { PACE_EVENTS = 1 << 16 /* number of events per run, after which the mode is chosen again */ };

struct threads {
    struct pace pace;
    uint64_t at_once;        /* number of events processed in parallel */
    bool stays_parallel;     /* never run sequentially, see virtual_stay_parallel() */
    bool is_parallel;        /* if false, one thread runs all partitions */
    uint64_t *lookahead_ns;  /* index: from partition, to partition; UINT64_MAX: not connected */
    struct channel **channel; /* index: from partition, to partition; NULL means no channel */
    /* threads of all partitions except the first, which uses the caller's thread */
    pthread_t *worker;
    uint32_t workers;
    pthread_mutex_t lock;
    pthread_cond_t begins, ends;
    uint64_t began_ns;       /* start of the current run, in real time */
    uint64_t runs;           /* number of runs that have begun; the lock protects all four fields */
    uint32_t ended;          /* number of threads that have finished their part of the run */
    bool is_over;
    _Alignas(CACHE_LINE) _Atomic uint64_t before_ns; /* the run processes events before this time */
    _Atomic bool was_slow;   /* the run ended early because a partition waited for too long */
    _Atomic int quits;       /* enum virtual_stop, the reason why all partitions end early */
    _Alignas(CACHE_LINE) _Atomic uint32_t done; /* partitions that have finished their part */
    _Alignas(CACHE_LINE) _Atomic uint64_t floor_ns; /* no event happens before this time */
};

static inline uint64_t *lookahead_between(const struct virtual *v, uint32_t from, uint32_t to)
{
    return &v->threads->lookahead_ns[from * v->partitions + to];
}

static inline struct channel *channel_between(const struct virtual *v, uint32_t from, uint32_t to)
{
    return v->threads->channel[from * v->partitions + to];
}

/* Add times; the result is at most the latest time. */
static inline uint64_t time_plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t time_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* partition.c */
/* Make partition `to` notify controllers and applications of packets received in partition
 * `from`. */
void partition_hand_over(struct partition *from, struct partition *to);

/* clocks.c */
/* Mark a partition as quiet, because it has no work. The version of the partition becomes odd, and
 * `quiet_next_ns` is valid. */
void partition_be_quiet(struct partition *p, uint64_t next_ns);
void partition_be_busy(struct partition *p);
/* If all partitions are quiet and no message is in flight, advance all clocks to the earliest event
 * in one step, instead of in steps of the lookahead. */
void threads_jump(struct virtual *v);
/* Send a frame to another partition. */
void partition_send(struct partition *p, uint16_t to, const struct arrival *arrival, uint64_t due_ns);
/* Receive the messages of other partitions. */
void partition_receive(struct partition *p);
/* Return the time before which events may be processed, because no earlier message can arrive. */
uint64_t partition_safe_before(struct partition *p);

/* pace.c */
bool pace_wants_turns(const struct pace *pace);
/* Record a run in the chosen mode; `waited` is the fraction of the threads' time spent waiting for
 * each other. `was_slow` means that a parallel run ended early, because threads waited. */
void pace_note(struct pace *pace, uint64_t took_ns, double waited, uint64_t events, bool was_slow);

/* channel.c */
bool channel_is_full(struct channel *channel);
void channel_send(struct channel *channel, struct packet_pool *pool, const struct arrival *arrival,
                  uint64_t due_ns);
bool channel_waits(const struct channel *channel);
/* Add a frame from another partition to a partition's events. */
void partition_take_in(struct partition *p, const struct arrival *arrival, uint64_t due_ns);
/* Add waiting messages to a partition's events. Returns their number. */
uint32_t channel_receive(struct channel *channel, struct partition *p);

#endif
