/* Receives one UDP flow until SIGTERM. Records the sequence number and the times of each datagram.
 *
 * Counts the datagrams that the kernel drops because the socket buffer is full. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "flow.h"
#include "records.h"

enum { CONTROL_ROOM = 128, NAP_MS = 1 };

struct totals {
    uint64_t received;
    uint64_t foreign;      /* number of datagrams that belong to other flows */
    uint64_t dscp_changed; /* number of datagrams whose DSCP differs from the DSCP that was sent */
};

struct options {
    uint16_t port, flow;
    uint32_t payload;
    int tos;
    const char *records;
    volatile uint64_t *received; /* number of received datagrams, for the page of --watch */
};

static int open_socket(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1, large = 64 << 20;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    if (fd < 0)
        fail("socket");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof large) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0 ||
        setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on) != 0)
        fail("setsockopt");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("bind");
    return fd;
}

/* Reads the kernel's receive timestamp (CLOCK_REALTIME) and the TOS byte of the datagram. */
static void read_control(struct msghdr *message, uint64_t *realtime_ns, int *tos)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);

    for (; control != NULL; control = CMSG_NXTHDR(message, control)) {
        if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec stamp;

            memcpy(&stamp, CMSG_DATA(control), sizeof stamp);
            *realtime_ns = (uint64_t)stamp.tv_sec * 1000000000u + (uint64_t)stamp.tv_nsec;
        } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS) {
            *tos = *CMSG_DATA(control);
        }
    }
}

static void write_record(const struct options *options, struct mmsghdr *message, uint64_t offset_ns,
                 FILE *records, struct totals *totals)
{
    const struct flow_payload *payload = message->msg_hdr.msg_iov->iov_base;
    uint64_t realtime_ns = 0;
    int tos = -1;
    struct flow_received record;

    if (message->msg_len != options->payload || be16toh(payload->flow) != options->flow) {
        totals->foreign++;
        return;
    }
    read_control(&message->msg_hdr, &realtime_ns, &tos);
    record.sequence = be64toh(payload->sequence);
    record.sent_ns = be64toh(payload->sent_ns);
    record.received_ns = realtime_ns - offset_ns;
    if (fwrite(&record, sizeof record, 1, records) != 1)
        fail("records");
    totals->received++;
    totals->dscp_changed += tos >> 2 != options->tos >> 2;
}

/* Receives all waiting datagrams. */
static void drain(int fd, const struct options *options, FILE *records, struct totals *totals)
{
    static uint8_t payloads[FLOW_BATCH][FLOW_MAX_PAYLOAD];
    static uint8_t controls[FLOW_BATCH][CONTROL_ROOM];
    struct mmsghdr messages[FLOW_BATCH];
    struct iovec vectors[FLOW_BATCH];

    for (;;) {
        uint64_t offset_ns;
        int number;

        for (unsigned i = 0; i < FLOW_BATCH; i++) {
            vectors[i] = (struct iovec){payloads[i], FLOW_MAX_PAYLOAD};
            messages[i].msg_hdr = (struct msghdr){
                .msg_iov = &vectors[i], .msg_iovlen = 1,
                .msg_control = controls[i], .msg_controllen = CONTROL_ROOM};
        }
        number = recvmmsg(fd, messages, FLOW_BATCH, 0, NULL);
        if (number < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (number < 0)
            fail("receive");
        /* read the offset for each batch, because the system may adjust the wall clock */
        offset_ns = wall_clock_offset_ns();
        for (int i = 0; i < number; i++)
            write_record(options, &messages[i], offset_ns, records, totals);
        *options->received = totals->received;
    }
}

static uint32_t kernel_drops(int fd)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof memory;

    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &size) != 0)
        fail("SO_MEMINFO");
    return memory[SK_MEMINFO_DROPS];
}

int main(int argc, char **argv)
{
    struct options options;
    struct totals totals = {0};
    sigset_t stopping;
    struct pollfd events[2];
    FILE *records;

    if (argc != 8) {
        fprintf(stderr, "usage: receive PORT FLOW PAYLOAD TOS RECORDS COUNTS NUMBER\n");
        return FLOW_UNUSABLE;
    }
    options = (struct options){(uint16_t)atoi(argv[1]), (uint16_t)atoi(argv[2]),
                               (uint32_t)atoi(argv[3]), atoi(argv[4]), argv[5],
                               map_count(argv[6], argv[7])};
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGTERM);
    sigprocmask(SIG_BLOCK, &stopping, NULL);
    records = open_records(options.records);
    events[0] = (struct pollfd){open_socket(options.port), POLLIN, 0};
    events[1] = (struct pollfd){signalfd(-1, &stopping, 0), POLLIN, 0};
    puts("ready");
    fflush(stdout);
    while (!(events[1].revents & POLLIN)) {
        if (poll(events, 2, -1) < 0)
            fail("poll");
        drain(events[0].fd, &options, records, &totals);
        /* The kernel records the timestamps, so this process may wake up rarely. This saves CPU
         * time for the switches. */
        if (poll(&events[1], 1, NAP_MS) < 0)
            fail("poll");
    }
    drain(events[0].fd, &options, records, &totals);
    if (fclose(records) != 0)
        fail(options.records);
    printf("{\"received\": %lu, \"foreign\": %lu, \"dscp_changed\": %lu, \"kernel_drops\": %u}\n",
           totals.received, totals.foreign, totals.dscp_changed, kernel_drops(events[0].fd));
    return 0;
}
