/* Worker threads: each thread moves the frames of several switches. A frame from one switch to
 * another of the same thread costs no system call and no change of thread. */
#ifndef MINIP4_PORTS_WORKER_H
#define MINIP4_PORTS_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct worker;
struct workers;

/* The work for one switch. It is part of a larger structure, whose functions the worker calls. */
struct task {
    /* Do one round. Sets `due_ns` to the time when the next round is due (UINT64_MAX: when a frame
     * arrives), or returns true if it must follow immediately. Adds the number of frames to
     * `frames`. */
    bool (*round)(struct task *task);
    uint64_t due_ns, frames;
    /* Add all descriptors to the epoll instance, or remove them. Their data.ptr is the task. A round
     * follows when one of them is readable. */
    void (*watch)(struct task *task, int epoll_fd, bool is_added);
    /* The last round has ended: from now on, do not call task_notify(). */
    void (*stopped)(struct task *task);
    uint64_t device_id;    /* device ID in the message about a crash of the task */
    atomic_bool has_error; /* a descriptor reports an error (EPOLLERR); reset by round() */

    /* private members */
    struct workers *workers;
    struct worker *_Atomic worker; /* NULL if the task does not run */
    struct task *next, *next_notified, *next_member;
    bool is_queued, is_member;
    atomic_bool is_notified, is_stopping;
    uint64_t end_ns;
    _Atomic uint64_t busy_ns; /* time of its rounds with frames, at the present worker */
    uint64_t window_busy_ns;  /* busy_ns at the start of the window */
    uint64_t earlier_cpu_ns;  /* CPU time at earlier workers */
};

/* Start `count` threads. Returns NULL with errno set on failure. */
struct workers *workers_create(unsigned count);
/* End the threads. All tasks must be stopped. */
void workers_destroy(struct workers *workers);
/* If the process crashes in a task, write the task's device ID to stderr. */
void workers_report_crashes(struct workers *workers);

/* Run a task. */
void task_start(struct task *task, struct workers *workers);
/* Stop a task; return after its last round. This is the first round that leaves no work, or the
 * first round that ends at or after end_ns. */
void task_stop(struct task *task, uint64_t end_ns);
/* Request another round. Any thread may call this function while the task runs. */
void task_notify(struct task *task);
/* Return the CPU time of a task in ns, including the time of the kernel. If a thread has several
 * tasks, its time is divided by the duration of their rounds. */
uint64_t task_cpu_ns(struct task *task);

#endif
