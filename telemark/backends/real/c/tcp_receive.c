/* Receives one TCP flow until SIGTERM, and records how many bytes had come at which time. Where there are
 * responses, answers each request when all of it has come. */
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

struct answering {
    uint64_t request_bytes, response_bytes; /* the second 0: there are none */
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

/* Takes all that waits; returns false when there will be no more. */
static bool drain(int fd, uint64_t *received, FILE *records)
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
        record.time_ns = clock_ns(CLOCK_MONOTONIC);
        record.bytes = *received;
        if (fwrite(&record, sizeof record, 1, records) != 1)
            fail("records");
    }
}

/* Writes what the connection takes of what is owed; returns whether more is. */
static bool answer(int fd, struct answering *answering, uint64_t received)
{
    static const uint8_t zeros[CHUNK];
    uint64_t owed = received / answering->request_bytes * answering->response_bytes;

    while (answering->written < owed) {
        uint64_t rest = owed - answering->written;
        ssize_t written = send(fd, zeros, rest < CHUNK ? rest : CHUNK, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (written > 0)
            answering->written += (uint64_t)written;
        else if (errno == EAGAIN)
            return true;
        else if (errno != EINTR)
            return false; /* the sender is gone, and tells why */
    }
    return false;
}

int main(int argc, char **argv)
{
    struct pollfd events[2];
    sigset_t stopping;
    uint64_t received = 0;
    struct answering answering = {0};
    FILE *records;
    int listening, connection = -1, on = 1;

    if (argc != 5) {
        fprintf(stderr, "usage: tcp_receive PORT REQUEST_BYTES RESPONSE_BYTES RECORDS\n");
        return FLOW_UNUSABLE;
    }
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGTERM);
    sigprocmask(SIG_BLOCK, &stopping, NULL);
    answering.request_bytes = natural(argv[2]);
    answering.response_bytes = natural(argv[3]);
    records = open_records(argv[4]);
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
            bool goes_on = drain(connection, &received, records);
            bool owes = answering.response_bytes && answer(connection, &answering, received);

            events[0].events = owes ? POLLIN | POLLOUT : POLLIN;
            if (!goes_on)
                events[0].fd = -1; /* which poll() passes over */
        }
    }
    if (connection >= 0)
        drain(connection, &received, records);
    if (fclose(records) != 0)
        fail(argv[4]);
    return 0; /* which closes the connection */
}
