/* A task that crashes. */
#include <stddef.h>
#include <unistd.h>

#include "worker.h"

static bool do_round(struct task *task)
{
    task->stopped = NULL;
    task->stopped(task);
    return false;
}

static void watch(struct task *task, int epoll_fd, bool is_added)
{
    (void)task, (void)epoll_fd, (void)is_added;
}

int main(void)
{
    struct workers *workers = workers_create(2);
    struct task task = {.round = do_round, .watch = watch, .device_id = 7};
    workers_report_crashes(workers);
    task_start(&task, workers);
    for (;;)
        pause();
}
