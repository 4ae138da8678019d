/* Receives one TCP flow until SIGTERM, and records the number of received bytes over time. If the
 * flow has responses, it sends a response to each complete request. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "flow.h"
#include "pace.h"
#include "records.h"

enum { CHUNK = 1 << 16 };

struct responder {
    uint64_t request_bytes, response_bytes; /* response_bytes is 0 if there are no responses */
    uint64_t written;
};

static int open_socket(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (fd < 0)
        fail("socket");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        fail("setsockopt");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1) != 0)
        fail("port");
    return fd;
}

/* Receives all waiting data; returns false at the end of the connection. `shown` is the number of
 * received bytes for the page of --watch. */
static bool drain(int fd, uint64_t *received, volatile uint64_t *shown, FILE *records)
{
    static uint8_t bytes[CHUNK];

    for (;;) {
        ssize_t taken = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        struct tcp_received record;

        if (taken < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (taken <= 0)
            return false;
        *received += (uint64_t)taken;
        *shown = *received;
        record.time_ns = clock_ns(CLOCK_MONOTONIC);
        record.bytes = *received;
        if (fwrite(&record, sizeof record, 1, records) != 1)
            fail("records");
    }
}

/* Writes responses to complete requests, as much as the socket accepts. Returns whether a part of
 * the responses is not yet written. */
static bool answer(int fd, struct responder *responder, uint64_t received)
{
    static const uint8_t zeros[CHUNK];
    uint64_t owed = received / responder->request_bytes * responder->response_bytes;

    while (responder->written < owed) {
        uint64_t rest = owed - responder->written;
        ssize_t written = send(fd, zeros, rest < CHUNK ? rest : CHUNK, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (written > 0)
            responder->written += (uint64_t)written;
        else if (errno == EAGAIN)
            return true;
        else if (errno != EINTR)
            return false; /* the sender has exited and reports the cause */
    }
    return false;
}

int main(int argc, char **argv)
{
    struct pollfd events[2];
    sigset_t stopping;
    uint64_t received = 0;
    volatile uint64_t *shown;
    struct responder responder = {0};
    FILE *records;
    int listening, connection = -1, on = 1;

    if (argc != 7) {
        fprintf(stderr, "usage: tcp_receive PORT REQUEST_BYTES RESPONSE_BYTES RECORDS "
                        "COUNTS NUMBER\n");
        return FLOW_UNUSABLE;
    }
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGTERM);
    sigprocmask(SIG_BLOCK, &stopping, NULL);
    responder.request_bytes = natural(argv[2]);
    responder.response_bytes = natural(argv[3]);
    records = open_records(argv[4]);
    shown = map_count(argv[5], argv[6]);
    listening = open_socket((uint16_t)atoi(argv[1]));
    events[0] = (struct pollfd){listening, POLLIN, 0};
    events[1] = (struct pollfd){signalfd(-1, &stopping, 0), POLLIN, 0};
    puts("ready");
    fflush(stdout);
    while (!(events[1].revents & POLLIN)) {
        if (poll(events, 2, -1) < 0)
            fail("poll");
        if (connection < 0 && events[0].revents) {
            if ((connection = accept(listening, NULL, NULL)) < 0)
                fail("accept");
            if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
                fail("setsockopt");
            events[0].fd = connection;
        } else if (events[0].revents) {
            bool is_open = drain(connection, &received, shown, records);
            bool is_due = responder.response_bytes && answer(connection, &responder, received);

            events[0].events = is_due ? POLLIN | POLLOUT : POLLIN;
            if (!is_open)
                events[0].fd = -1; /* poll() ignores a negative descriptor */
        }
    }
    if (connection >= 0)
        drain(connection, &received, shown, records);
    if (fclose(records) != 0)
        fail(argv[4]);
    return 0; /* the end of the process closes the connection */
}
