/* A worker has a queue of tasks whose next round must follow immediately. While the queue is empty,
 * the thread sleeps in epoll. Other threads put tasks on the stack `notified`. */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 64, EVENTS = 64, MESSAGE_SIZE = 128 };

/* In each window, a worker may move one of its tasks to another worker. Frames between two threads
 * cost more, so the first worker has all tasks while it is not too busy. */
#ifndef WINDOW_NS /* a test sets a shorter one */
#define WINDOW_NS UINT64_C(10000000)
#endif
/* Percentages of a window. A worker that is busy for longer than HIGH gives a task to another
 * worker. The first worker takes tasks from the other workers until it is busy for LOW. */
enum { HIGH = 80, LOW = 40 };

#define SECOND_NS UINT64_C(1000000000)

struct worker {
    struct workers *workers;
    pthread_t thread;
    int epoll_fd, wake_fd;
    atomic_bool is_asleep, is_ending;
    struct task *_Atomic notified;
    struct task *_Atomic current; /* the task whose round runs */
    struct task *first, *last;    /* queue */
    struct task *moving;          /* a task that moves to another worker before its next round */
    struct worker *destination;   /* worker to which `moving` moves */
    unsigned queued;
    struct task *members;
    uint64_t next_due_ns;     /* no member is due earlier */
    _Atomic uint64_t busy_ns; /* time of all rounds with frames */
    uint64_t window_ns;       /* start of the window */
    uint64_t window_busy_ns[MAX_WORKERS]; /* busy_ns of all workers at the start of the window */
};

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t stopped; /* a task has stopped */
    unsigned count;
    struct worker worker[];
};

static const int CRASHES[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* Queue and stack */

static void enqueue(struct worker *worker, struct task *task)
{
    if (task->is_queued)
        return;
    task->is_queued = true;
    task->next = NULL;
    *(worker->queued++ ? &worker->last->next : &worker->first) = task;
    worker->last = task;
}

static struct task *dequeue(struct worker *worker)
{
    struct task *task = worker->first;
    worker->first = task->next;
    worker->queued--;
    task->is_queued = false;
    return task;
}

static void wake(struct worker *worker)
{
    if (atomic_load(&worker->is_asleep) && atomic_exchange(&worker->is_asleep, false))
        eventfd_write(worker->wake_fd, 1);
}

/* Put a task on the stack of its worker. */
static void put_notified(struct task *task)
{
    struct worker *worker = atomic_load(&task->worker);
    struct task *top = atomic_load(&worker->notified);
    do
        task->next_notified = top;
    while (!atomic_compare_exchange_weak(&worker->notified, &top, task));
    wake(worker);
}

void task_notify(struct task *task)
{
    if (!atomic_exchange(&task->is_notified, true))
        put_notified(task);
}

static void add_member(struct worker *worker, struct task *task)
{
    task->window_busy_ns = 0;
    task->next_member = worker->members;
    worker->members = task;
    task->is_member = true;
    task->watch(task, worker->epoll_fd, true);
}

/* Queue the notified tasks, in the order of their notification. */
static void take_notified(struct worker *worker)
{
    if (!atomic_load_explicit(&worker->notified, memory_order_relaxed))
        return;
    struct task *reversed = NULL;
    for (struct task *task = atomic_exchange(&worker->notified, NULL), *next; task; task = next) {
        next = task->next_notified;
        task->next_notified = reversed;
        reversed = task;
    }
    for (struct task *task = reversed, *next; task; task = next) {
        next = task->next_notified;
        if (atomic_load(&task->worker) != worker) { /* it was moved */
            put_notified(task); /* it stays notified, so the other worker cannot free it */
            continue;
        }
        atomic_exchange(&task->is_notified, false);
        if (!task->is_member)
            add_member(worker, task);
        enqueue(worker, task);
    }
}

/* Rounds */

/* See task_cpu_ns(). The caller holds the lock of the workers. */
static uint64_t cpu_ns(const struct task *task)
{
    const struct worker *worker = atomic_load(&task->worker);
    uint64_t total_ns = worker ? atomic_load(&worker->busy_ns) : 0;
    clockid_t clock;
    if (!total_ns || pthread_getcpuclockid(worker->thread, &clock))
        return task->earlier_cpu_ns;
    double share = (double)atomic_load(&task->busy_ns) / (double)total_ns;
    return task->earlier_cpu_ns + (uint64_t)(share * (double)now_ns(clock));
}

/* Assign a task to another worker, or to none. The caller holds the lock of the workers. */
static void leave(struct worker *worker, struct task *task, struct worker *to)
{
    task->watch(task, worker->epoll_fd, false);
    struct task **place = &worker->members;
    while (*place != task)
        place = &(*place)->next_member;
    *place = task->next_member;
    task->is_member = false;
    task->earlier_cpu_ns = cpu_ns(task);
    atomic_store(&task->busy_ns, 0);
    atomic_store(&task->worker, to); /* if it is NULL, task_stop() may now free the task */
    pthread_cond_broadcast(&worker->workers->stopped);
}

/* Move a task to another worker, which queues it. Until it is on that worker's stack, it stays
 * notified, so that its owner cannot free it. */
static void move(struct worker *worker, struct task *task, struct worker *to)
{
    bool was_notified = atomic_exchange(&task->is_notified, true);
    pthread_mutex_lock(&worker->workers->lock);
    leave(worker, task, to);
    pthread_mutex_unlock(&worker->workers->lock);
    if (!was_notified) /* otherwise, it already is on a stack, or another thread puts it there */
        put_notified(task);
}

/* Remove a task whose last round has ended. Returns false if it was notified again. */
static bool remove_member(struct worker *worker, struct task *task)
{
    task->stopped(task);
    pthread_mutex_lock(&worker->workers->lock);
    bool is_notified = atomic_load(&task->is_notified);
    if (!is_notified)
        leave(worker, task, NULL);
    pthread_mutex_unlock(&worker->workers->lock);
    return !is_notified;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Add to a number that only this thread changes. */
static void add(_Atomic uint64_t *to, uint64_t ns)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + ns,
                          memory_order_relaxed);
}

/* Do one round of each queued task. */
static void run_queue(struct worker *worker)
{
    uint64_t start_ns = now_ns(CLOCK_MONOTONIC);
    for (unsigned left = worker->queued; left; left--) {
        struct task *task = dequeue(worker);
        if (task == worker->moving) {
            worker->moving = NULL;
            move(worker, task, worker->destination);
            continue;
        }
        atomic_store_explicit(&worker->current, task, memory_order_relaxed);
        bool is_stopping = atomic_load(&task->is_stopping);
        uint64_t frames = task->frames;
        bool has_more = task->round(task);
        atomic_store_explicit(&worker->current, NULL, memory_order_relaxed);
        uint64_t end_ns = now_ns(CLOCK_MONOTONIC);
        if (task->frames != frames) {
            add(&task->busy_ns, end_ns - start_ns);
            add(&worker->busy_ns, end_ns - start_ns);
        }
        start_ns = end_ns;
        if (is_stopping) {
            bool is_last = (!has_more && task->due_ns == UINT64_MAX) || end_ns >= task->end_ns;
            if (is_last && remove_member(worker, task))
                continue;
            task->due_ns = earlier(task->due_ns, task->end_ns);
        }
        if (has_more)
            enqueue(worker, task);
        else
            worker->next_due_ns = earlier(worker->next_due_ns, task->due_ns);
    }
}

/* Queue the tasks that are due, and find the time when the next one is due. */
static void take_due(struct worker *worker)
{
    uint64_t time_ns = now_ns(CLOCK_MONOTONIC);
    if (time_ns < worker->next_due_ns)
        return;
    worker->next_due_ns = UINT64_MAX;
    for (struct task *task = worker->members; task; task = task->next_member)
        if (task->due_ns <= time_ns)
            enqueue(worker, task);
        else if (!task->is_queued)
            worker->next_due_ns = earlier(worker->next_due_ns, task->due_ns);
}

/* Queue the tasks with readable descriptors. If the queue is empty, sleep until there is work. */
static void poll_descriptors(struct worker *worker)
{
    struct epoll_event events[EVENTS];
    struct timespec timeout = {0};
    bool sleeps = !worker->queued;
    if (sleeps) {
        atomic_store(&worker->is_asleep, true);
        sleeps = !atomic_load(&worker->notified) && !atomic_load(&worker->is_ending);
    }
    if (sleeps && worker->next_due_ns != UINT64_MAX) {
        uint64_t time_ns = now_ns(CLOCK_MONOTONIC);
        uint64_t left_ns = worker->next_due_ns > time_ns ? worker->next_due_ns - time_ns : 0;
        timeout.tv_sec = (time_t)(left_ns / SECOND_NS);
        timeout.tv_nsec = (long)(left_ns % SECOND_NS);
    }
    bool is_endless = sleeps && worker->next_due_ns == UINT64_MAX;
    int count = epoll_pwait2(worker->epoll_fd, events, EVENTS, is_endless ? NULL : &timeout, NULL);
    atomic_store(&worker->is_asleep, false);
    for (int i = 0; i < count; i++) {
        struct task *task = events[i].data.ptr;
        if (!task) {
            eventfd_t wakes;
            eventfd_read(worker->wake_fd, &wakes);
            continue;
        }
        if (events[i].events & EPOLLERR)
            atomic_store(&task->has_error, true);
        enqueue(worker, task);
    }
}

/* Moving tasks */

/* Return the task whose move gives two workers the most similar loads, or NULL. `surplus_ns` is the
 * difference of their loads. */
static struct task *task_to_move(const struct worker *worker, uint64_t surplus_ns)
{
    struct task *best = NULL;
    uint64_t best_ns = surplus_ns * 9 / 10; /* do not move tasks for a small gain */
    for (struct task *task = worker->members; task; task = task->next_member) {
        uint64_t load_ns = atomic_load(&task->busy_ns) - task->window_busy_ns;
        uint64_t rest_ns = surplus_ns > 2 * load_ns ? surplus_ns - 2 * load_ns
                                                    : 2 * load_ns - surplus_ns;
        if (rest_ns < best_ns) {
            best = task;
            best_ns = rest_ns;
        }
    }
    return best;
}

static void balance(struct worker *worker, const uint64_t *load_ns, uint64_t past_ns)
{
    struct workers *workers = worker->workers;
    unsigned own = (unsigned)(worker - workers->worker), to = own;
    for (unsigned i = 0; i < workers->count; i++)
        if (load_ns[i] < load_ns[to])
            to = i;
    struct task *task = NULL;
    if (load_ns[own] > past_ns * HIGH / 100)
        task = task_to_move(worker, load_ns[own] - load_ns[to]);
    else if (own && load_ns[own] + load_ns[0] < past_ns * LOW / 100) {
        to = 0;
        task = worker->members;
    }
    if (!task)
        return;
    worker->moving = task;
    worker->destination = &workers->worker[to];
    enqueue(worker, task);
}

/* At the end of a window, compute the loads of all workers, and move a task if this is useful. */
static void end_window(struct worker *worker)
{
    struct workers *workers = worker->workers;
    uint64_t time_ns = now_ns(CLOCK_MONOTONIC), past_ns = time_ns - worker->window_ns;
    uint64_t load_ns[MAX_WORKERS];
    if (past_ns < WINDOW_NS || workers->count == 1)
        return;
    for (unsigned i = 0; i < workers->count; i++) {
        uint64_t busy_ns = atomic_load(&workers->worker[i].busy_ns);
        load_ns[i] = busy_ns - worker->window_busy_ns[i];
        worker->window_busy_ns[i] = busy_ns;
    }
    balance(worker, load_ns, past_ns);
    for (struct task *task = worker->members; task; task = task->next_member)
        task->window_busy_ns = atomic_load(&task->busy_ns);
    worker->window_ns = time_ns;
}

static void *run(void *user)
{
    struct worker *worker = user;
    prctl(PR_SET_TIMERSLACK, 1);
    while (!atomic_load_explicit(&worker->is_ending, memory_order_relaxed)) {
        poll_descriptors(worker);
        take_notified(worker);
        take_due(worker);
        run_queue(worker);
        end_window(worker);
    }
    return NULL;
}

/* Functions for other threads */

static int start_thread(struct workers *workers, struct worker *worker)
{
    struct epoll_event event = {.events = EPOLLIN};
    worker->workers = workers;
    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    worker->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    worker->next_due_ns = UINT64_MAX;
    if (worker->epoll_fd < 0 || worker->wake_fd < 0 ||
        epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->wake_fd, &event))
        return -1;
    /* the main thread handles all signals except those of a crash of this thread */
    sigset_t others, before;
    sigfillset(&others);
    for (unsigned i = 0; i < sizeof CRASHES / sizeof *CRASHES; i++)
        sigdelset(&others, CRASHES[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    pthread_t thread; /* pthread_create() may change it even if it fails */
    errno = pthread_create(&thread, NULL, run, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errno)
        return -1;
    worker->thread = thread;
    pthread_setname_np(worker->thread, "minip4-ports");
    return 0;
}

static void end_thread(struct worker *worker)
{
    atomic_store(&worker->is_ending, true);
    if (worker->thread) {
        eventfd_write(worker->wake_fd, 1);
        pthread_join(worker->thread, NULL);
    }
    if (worker->epoll_fd >= 0)
        close(worker->epoll_fd);
    if (worker->wake_fd >= 0)
        close(worker->wake_fd);
}

struct workers *workers_create(unsigned count)
{
    count = count < MAX_WORKERS ? count : MAX_WORKERS;
    struct workers *workers = calloc(1, sizeof *workers + count * sizeof *workers->worker);
    if (!workers)
        return NULL;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->stopped, NULL);
    while (workers->count < count)
        if (start_thread(workers, &workers->worker[workers->count++])) {
            int error = errno;
            workers_destroy(workers);
            errno = error;
            return NULL;
        }
    return workers;
}

void workers_destroy(struct workers *workers)
{
    for (unsigned i = 0; i < workers->count; i++)
        end_thread(&workers->worker[i]);
    pthread_mutex_destroy(&workers->lock);
    pthread_cond_destroy(&workers->stopped);
    free(workers);
}

void task_start(struct task *task, struct workers *workers)
{
    task->workers = workers;
    task->due_ns = UINT64_MAX;
    atomic_store(&task->worker, &workers->worker[0]);
    task_notify(task);
}

void task_stop(struct task *task, uint64_t end_ns)
{
    task->end_ns = end_ns;
    pthread_mutex_lock(&task->workers->lock);
    /* the worker needs the lock to remove the task, so it cannot do this before task_notify() */
    atomic_store(&task->is_stopping, true);
    task_notify(task);
    while (atomic_load(&task->worker))
        pthread_cond_wait(&task->workers->stopped, &task->workers->lock);
    pthread_mutex_unlock(&task->workers->lock);
}

uint64_t task_cpu_ns(struct task *task)
{
    if (!task->workers)
        return 0;
    pthread_mutex_lock(&task->workers->lock);
    uint64_t ns = cpu_ns(task);
    pthread_mutex_unlock(&task->workers->lock);
    return ns;
}

/* Crashes */

static struct workers *reported; /* for the signal handler */

static void report_crash(int number)
{
    char message[MESSAGE_SIZE];
    for (unsigned i = 0; i < reported->count; i++) {
        const struct worker *worker = &reported->worker[i];
        const struct task *task = atomic_load(&worker->current);
        if (!pthread_equal(worker->thread, pthread_self()) || !task)
            continue;
        int length = snprintf(message, sizeof message, "minip4: device %" PRIu64 " crashed (signal %d)\n",
                              task->device_id, number);
        if (write(STDERR_FILENO, message, (size_t)length) < 0)
            break;
    }
    raise(number); /* now with its default action (SA_RESETHAND), when this function returns */
}

void workers_report_crashes(struct workers *workers)
{
    struct sigaction action = {.sa_handler = report_crash, .sa_flags = (int)SA_RESETHAND};
    reported = workers;
    for (unsigned i = 0; i < sizeof CRASHES / sizeof *CRASHES; i++)
        sigaction(CRASHES[i], &action, NULL);
}
