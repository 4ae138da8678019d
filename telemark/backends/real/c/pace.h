/* Pacing of senders: a sender waits until each packet is due, and ends at SIGTERM. */
#ifndef TESTBED_PACE_H
#define TESTBED_PACE_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "flow.h"

/* Above 10,000 packets/s, a sender sends several packets per tick. One wake-up per packet would
 * occupy a core. */
enum { TICK_NS = 100000 };

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

static inline void set_up_pacing(void)
{
    struct sigaction action = {.sa_handler = stop};

    sigaction(SIGTERM, &action, NULL);
    /* without this, the kernel may wake this thread up to 50 us too late */
    prctl(PR_SET_TIMERSLACK, 1);
}

/* Waits until a point in time, or until a signal arrives. */
static inline void sleep_until(uint64_t time_ns)
{
    struct timespec until = {(time_t)(time_ns / 1000000000u), (long)(time_ns % 1000000000u)};

    while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static inline void send_messages(int fd, struct mmsghdr *messages, unsigned number)
{
    for (unsigned done = 0; done < number;) {
        int sent = sendmmsg(fd, messages + done, number - done, 0);

        if (sent > 0)
            done += (unsigned)sent;
        else if (errno != EINTR)
            fail("send");
    }
}

static inline uint64_t natural(const char *text)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || *text == '-' || end == text) {
        errno = EINVAL;
        fail(text);
    }
    return value;
}

/* Prints that this sender is ready. Then reads the start time of its flow (CLOCK_MONOTONIC). */
static inline uint64_t await_start(void)
{
    char line[32];

    puts("ready");
    fflush(stdout);
    errno = ENODATA;
    if (!fgets(line, sizeof line, stdin))
        fail("start");
    line[strcspn(line, "\n")] = '\0';
    return natural(line);
}

#endif
