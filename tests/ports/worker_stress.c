/* Tasks in a ring pass frames over memory links, in several threads. The tasks are busy, so they are
 * moved between the threads, often if WINDOW_NS of worker.c is short. One task is stopped, freed and
 * started again many times. Each frame's content follows from its number. Prints nothing if all
 * frames arrive in order. Link with --wrap=pthread_mutex_unlock, so that this task is
 * stopped while a thread moves it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory_link.h"
#include "packet.h"
#include "worker.h"

enum { TASKS = 6, THREADS = 4, FRAMES = 60000, UNDERWAY = 64, RESTARTS = 200, SPINS = 3000 };
enum { PAUSE_NS = 300000, PATIENCE_NS = 2000000 };

struct node {
    struct task task; /* the first member */
    struct memory_end *in, *out;
    uint32_t sent, received;
    struct memory_link *link; /* to the next node */
    bool is_restarted;
};

static struct node *nodes[TASKS];
static sem_t done;
static sem_t restarted_moves;
static _Thread_local bool is_leaving; /* the restarted task leaves this thread */
static _Atomic unsigned moves;

static void fail(const char *what, uint32_t number)
{
    fprintf(stderr, "%s at frame %u\n", what, number);
    exit(1);
}

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

/* Pause when the restarted task has left this thread. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    int result = __real_pthread_mutex_unlock(lock);
    if (is_leaving) {
        is_leaving = false;
        sem_post(&restarted_moves);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return result;
}

static uint32_t length_of(uint32_t number)
{
    return 14 + number * 2654435761u % (PACKET_MAX_FRAME - 13);
}

static void send(struct node *node)
{
    uint8_t frame[PACKET_MAX_FRAME];
    uint32_t number = node->sent++, length = length_of(number);
    memset(frame, (uint8_t)number, length);
    if (!memory_end_send(node->out, frame, length, number))
        fail("no room", number);
}

static bool receive(struct node *node)
{
    uint8_t room[PACKET_MAX_FRAME];
    uint64_t stamp_ns;
    if (!memory_end_peek(node->in, &stamp_ns))
        return false;
    uint32_t length = memory_end_receive(node->in, room), number = node->received++;
    if (length != length_of(number) || stamp_ns != number)
        fail("wrong length or time", number);
    for (uint32_t i = 0; i < length; i += 97)
        if (room[i] != (uint8_t)number)
            fail("wrong content", number);
    return true;
}

static bool do_round(struct task *task)
{
    struct node *node = (struct node *)task;
    bool is_first = node == nodes[0];
    uint32_t before = node->received;
    while (node->received < before + UNDERWAY / 2 && receive(node))
        ;
    memory_end_begin(node->out);
    while (!is_first && node->sent < node->received)
        send(node);
    while (is_first && node->sent < FRAMES && node->sent < node->received + UNDERWAY)
        send(node);
    memory_end_sent(node->out);
    uint32_t count = node->received - before;
    for (volatile unsigned spin = count ? SPINS : 0; spin; spin--) /* so that threads are busy */
        ;
    if (is_first && node->received == FRAMES && before < FRAMES)
        sem_post(&done);
    task->frames += count;
    task->due_ns = UINT64_MAX;
    return count == UNDERWAY / 2; /* there may be more */
}

static void watch(struct task *task, int epoll_fd, bool is_added)
{
    (void)epoll_fd;
    moves += is_added;
    is_leaving = !is_added && ((struct node *)task)->is_restarted;
}

static void stopped(struct task *task)
{
    memory_end_set_reader(((struct node *)task)->in, NULL);
}

static void start(struct node *node, struct workers *workers)
{
    node->task = (struct task){.round = do_round, .watch = watch, .stopped = stopped};
    task_start(&node->task, workers);
    memory_end_set_reader(node->in, &node->task);
    task_notify(&node->task);
}

/* Stop a task, if possible while it moves, and let another one take its place. */
static void restart(struct node **place, struct workers *workers)
{
    struct node *old = *place, *new = malloc(sizeof *new);
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += (limit.tv_nsec + PATIENCE_NS) / 1000000000;
    limit.tv_nsec = (limit.tv_nsec + PATIENCE_NS) % 1000000000;
    sem_timedwait(&restarted_moves, &limit);
    task_stop(&old->task, 0);
    while (!sem_trywait(&restarted_moves))
        ;
    *new = *old;
    free(old);
    *place = new;
    start(new, workers);
}

int main(void)
{
    struct workers *workers = workers_create(THREADS);
    struct timespec limit;
    sem_init(&done, 0, 0);
    sem_init(&restarted_moves, 0, 0);
    for (unsigned i = 0; i < TASKS; i++)
        nodes[i] = calloc(1, sizeof **nodes);
    for (unsigned i = 0; i < TASKS; i++) {
        nodes[i]->link = memory_link_create();
        nodes[i]->out = memory_end_open(nodes[i]->link, 0);
        nodes[(i + 1) % TASKS]->in = memory_end_open(nodes[i]->link, 1);
    }
    for (unsigned i = 0; i < TASKS; i++)
        start(nodes[i], workers);
    nodes[3]->is_restarted = true;
    for (unsigned i = 0; i < RESTARTS; i++) {
        restart(&nodes[3], workers);
        if (!task_cpu_ns(&nodes[0]->task) && i == RESTARTS - 1)
            fail("no CPU time", 0);
    }
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 60;
    if (sem_timedwait(&done, &limit))
        fail("a task was not notified", nodes[0]->received);
    for (unsigned i = 0; i < TASKS; i++)
        task_stop(&nodes[i]->task, 0);
    for (unsigned i = 0; i < TASKS; i++) {
        memory_end_close(nodes[i]->out);
        memory_end_close(nodes[(i + 1) % TASKS]->in);
    }
    for (unsigned i = 0; i < TASKS; i++) {
        memory_link_destroy(nodes[i]->link);
        free(nodes[i]);
    }
    workers_destroy(workers);
    if (moves < TASKS + RESTARTS + 10)
        fail("few tasks were moved", moves);
    return 0;
}
