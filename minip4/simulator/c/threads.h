/* Data shared by the partitions of a network, each with its own thread. */
#ifndef MINIP4_THREADS_H
#define MINIP4_THREADS_H

#include <pthread.h>

#include "virtual_internal.h"

enum {
    CHANNEL_ROOM = 256,  /* frames; a power of two */
    MESSAGE_FRAME = 192, /* bytes: of what is longer the packet goes */
    MESSAGES_AHEAD = 4   /* are fetched while one is taken out */
};

/* A frame from one partition to another. The memory of a packet is in the cache of the core that wrote it and is
 * transferred line by line: so a short frame is copied without its packet, in few lines. A reused slot may have
 * a packet that goes back in exchange. */
struct message {
    _Alignas(CACHE_LINE) struct arrival arrival; /* its packet NULL: the frame is in here */
    uint64_t due_ns;
    struct packet *spare;
    uint32_t room;                 /* bytes before the frame in its packet */
    uint32_t length, source, hops; /* of the packet */
    uint8_t frame[MESSAGE_FRAME];
};

/* From one partition to another: a ring with one sender and one receiver, without a lock. */
struct channel {
    struct message message[CHANNEL_ROOM];
    _Alignas(CACHE_LINE) _Atomic uint32_t sent;
    uint32_t seen_received; /* the sender's */
    _Alignas(CACHE_LINE) _Atomic uint32_t received;
};

#define PACE_MUCH 0.25 /* share of the threads' time: above it, running in turn may be faster */

enum { PACE_RECENT = 3 /* runs */ };

/* The costs of running in parallel and in turn, and which of both is next. */
struct pace {
    bool in_turn;          /* the next run */
    bool turns_are_better; /* else parallel runs are faster, or turns were not tried */
    uint32_t runs;         /* since the way changed */
    uint32_t interval;     /* runs of the faster way before the other one is tried */
    double latest_cost_ns[PACE_RECENT]; /* per event, since the way changed */
    double latest_waited[PACE_RECENT];  /* share of the threads' time */
    double cost_ns[2];     /* per event, in parallel and in turn, as last measured; 0: not yet */
    bool has_waited;       /* the threads of the latest parallel runs, for much of the time */
};

enum { PACE_EVENTS = 1 << 16 /* after so many it is asked again */ };

struct threads {
    struct pace pace;
    uint64_t at_once;        /* events that were done so */
    bool is_parallel;        /* else one thread has all partitions */
    uint64_t *lookahead_ns;  /* from partition to partition; UINT64_MAX: not connected */
    struct channel **channel; /* the same; NULL: none */
    pthread_t *worker;       /* of all partitions but the first, which is the caller's */
    uint32_t workers;
    pthread_mutex_t lock;
    pthread_cond_t begins, ends;
    uint64_t began_ns;       /* the present run, in real time */
    uint64_t runs;           /* begun until now; all four under the lock */
    uint32_t ended;          /* workers that have ended their part of it */
    bool is_over;
    _Alignas(CACHE_LINE) _Atomic uint64_t before_ns; /* the run processes events before this time */
    _Atomic int quits;       /* enum virtual_stop: why all end early */
    _Alignas(CACHE_LINE) _Atomic uint32_t done; /* partitions that have nothing more to do */
    _Alignas(CACHE_LINE) _Atomic uint64_t floor_ns; /* nothing happens before it */
};

static inline uint64_t *lookahead_between(const struct virtual *v, uint32_t from, uint32_t to)
{
    return &v->threads->lookahead_ns[from * v->partitions + to];
}

static inline struct channel *channel_between(const struct virtual *v, uint32_t from, uint32_t to)
{
    return v->threads->channel[from * v->partitions + to];
}

/* No later than the latest time. */
static inline uint64_t time_plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t time_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* partition.c */
/* Has another partition notify controllers and applications of received packets. */
void partition_hand_over(struct partition *from, struct partition *to);

/* clocks.c */
/* A partition without work is quiet: its version is odd, and `quiet_next_ns` is valid. */
void partition_be_quiet(struct partition *p, uint64_t next_ns);
void partition_be_busy(struct partition *p);
/* If all are quiet and no message is in flight, nothing happens before their earliest event: so clocks can jump
 * there instead of advancing by the lookahead. */
void threads_jump(struct virtual *v);
/* A frame for another partition. */
void partition_send(struct partition *p, uint16_t to, const struct arrival *arrival, uint64_t due_ns);
/* Receives messages of other partitions. */
void partition_receive(struct partition *p);
/* Returns the time before which events may be processed: nothing earlier can arrive. */
uint64_t partition_safe_before(struct partition *p);

/* pace.c */
bool pace_wants_turns(const struct pace *pace);
/* Records a run in the chosen way; `waited` is the share of time in which threads waited for each other. */
void pace_note(struct pace *pace, uint64_t took_ns, double waited, uint64_t events);

/* channel.c */
bool channel_is_full(struct channel *channel);
void channel_send(struct channel *channel, struct packet_pool *pool, const struct arrival *arrival,
                  uint64_t due_ns);
bool channel_waits(const struct channel *channel);
/* Adds a frame from another partition to a partition's events. */
void partition_take_in(struct partition *p, const struct arrival *arrival, uint64_t due_ns);
/* Adds waiting messages to a partition's events; returns their number. */
uint32_t channel_receive(struct channel *channel, struct partition *p);

#endif
