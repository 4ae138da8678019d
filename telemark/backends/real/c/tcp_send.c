/* Sends one TCP flow. The flow ends after a number of bytes or after a duration. The sender writes
 * data at a rate, or as fast as TCP accepts data. Bursts and silences may alternate. Instead, the
 * sender may send requests, each after the response to the previous request.
 *
 * Records the kernel's TCP_INFO at intervals. After the last acknowledgement, the sender waits
 * until the receiver closes the connection. The end that closes the connection first cannot reuse
 * its port for a minute (TIME_WAIT), and the next connection needs the sender's port. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "flow.h"
#include "pace.h"
#include "records.h"

enum {
    MIN_CHUNK = 1448, MAX_CHUNK = 1 << 16, /* number of bytes per write */
    /* limits of the bytes per write of a flow with a rate */
    CHUNKS_PER_S = 1000,
    INTERVAL_NS = 10000000,                /* interval between records */
    /* after this time without an acknowledgement, the flow has failed */
    STALL_MS = 10000,
    SYN_RETRIES = 3,                       /* 15 seconds */
    /* TCP_CLOSE of <netinet/tcp.h>, which cannot be included together with <linux/tcp.h> */
    CLOSED = 7
};

struct options {
    struct sockaddr_in source, destination;
    int tos;
    uint64_t bytes, duration_ns; /* exactly one of these two fields is not 0 */
    double rate_bps;             /* 0 means unlimited */
    const char *congestion;      /* name of the congestion control algorithm in the kernel */
    bool has_ecn;
    uint64_t on_ns, off_ns;      /* durations of bursts and silences; 0 means no silences */
    /* number of requests, each of `bytes`; 0 means no requests */
    uint64_t requests, response_bytes, think_ns;
    const char *records, *answers;
    volatile uint64_t *written;  /* number of written bytes, for the page of --watch */
};

struct flow {
    const struct options *options;
    int fd;
    uint64_t start_ns, written, next_record_ns;
    FILE *records;
};

/* Lets this host request ECN (RFC 3168); no socket option exists for this. The receiver accepts ECN
 * by default. */
static void enable_ecn(void)
{
    FILE *setting = fopen("/proc/sys/net/ipv4/tcp_ecn", "w");

    if (!setting || fputs("1", setting) < 0 || fclose(setting) != 0)
        fail("net.ipv4.tcp_ecn");
}

static int open_socket(const struct options *options)
{
    const struct sockaddr *source = (const struct sockaddr *)&options->source;
    int on = 1, stall_ms = STALL_MS, retries = SYN_RETRIES;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0)
        fail("socket");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stall_ms, sizeof stall_ms) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &retries, sizeof retries) != 0 ||
        setsockopt(fd, IPPROTO_IP, IP_TOS, &options->tos, sizeof options->tos) != 0)
        fail("setsockopt");
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options->congestion,
                   (socklen_t)strlen(options->congestion)) != 0)
        fail(options->congestion);
    if (bind(fd, source, sizeof options->source) != 0)
        fail("source port");
    return fd;
}

static void check_connection(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error) {
        errno = error ? error : errno;
        fail("connection");
    }
}

/* Returns the number of unacknowledged bytes. Does not use tcpi_bytes_acked, because it includes
 * the SYN. */
static uint64_t outstanding(int fd)
{
    int bytes = 0;

    if (ioctl(fd, SIOCOUTQ, &bytes) != 0)
        fail("SIOCOUTQ");
    return (uint64_t)bytes;
}

static struct tcp_info read_info(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        fail("TCP_INFO");
    return info;
}

static void write_record(struct flow *flow)
{
    struct tcp_info info = read_info(flow->fd);
    struct tcp_progress record = {.time_ns = clock_ns(CLOCK_MONOTONIC), .written = flow->written};

    record.acknowledged = flow->written ? flow->written - outstanding(flow->fd) : 0;
    record.retransmitted = info.tcpi_total_retrans;
    record.window = info.tcpi_snd_cwnd;
    record.rtt_us = info.tcpi_rtt;
    if (fwrite(&record, sizeof record, 1, flow->records) != 1)
        fail("records");
    flow->next_record_ns = record.time_ns + INTERVAL_NS;
}

/* Returns the end of the current silence, or the current time if there is no silence. */
static uint64_t silence_end_ns(const struct flow *flow, uint64_t now_ns)
{
    uint64_t on_ns = flow->options->on_ns, cycle_ns = on_ns + flow->options->off_ns;
    uint64_t since_ns = cycle_ns ? (now_ns - flow->start_ns) % cycle_ns : 0;

    return since_ns < on_ns || !cycle_ns ? now_ns : now_ns - since_ns + cycle_ns;
}

/* Returns the time at which the next byte may be sent at the flow's rate, on a clock that stops
 * during silences. */
static uint64_t rate_due_ns(const struct flow *flow)
{
    const struct options *options = flow->options;
    uint64_t own_ns = (uint64_t)((double)flow->written * 8e9 / options->rate_bps);
    uint64_t silences = options->on_ns ? own_ns / options->on_ns : 0;

    return flow->start_ns + own_ns + silences * options->off_ns;
}

/* Returns the number of bytes that may be written now. If it is 0, sets `due_ns` to the time of the
 * next write. */
static uint64_t allowed(const struct flow *flow, uint64_t now_ns, uint64_t *due_ns)
{
    const struct options *options = flow->options;
    uint64_t chunk = MAX_CHUNK;

    *due_ns = silence_end_ns(flow, now_ns);
    if (*due_ns > now_ns)
        return 0;
    if (options->rate_bps > 0) {
        *due_ns = rate_due_ns(flow);
        if (*due_ns > now_ns)
            return 0;
        chunk = (uint64_t)(options->rate_bps / 8 / CHUNKS_PER_S);
        chunk = chunk < MIN_CHUNK ? MIN_CHUNK : chunk > MAX_CHUNK ? MAX_CHUNK : chunk;
    }
    if (options->bytes && chunk > options->bytes - flow->written)
        chunk = options->bytes - flow->written;
    return chunk;
}

static bool is_over(const struct flow *flow, uint64_t now_ns)
{
    const struct options *options = flow->options;

    return options->bytes ? flow->written == options->bytes
                          : now_ns - flow->start_ns >= options->duration_ns;
}

/* Writes all data of the flow. */
static void write_all(struct flow *flow)
{
    static const uint8_t zeros[MAX_CHUNK];
    struct pollfd writable = {flow->fd, POLLOUT, 0};

    for (;;) {
        uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), due_ns = now_ns, chunk;
        ssize_t written;

        if (stopped || is_over(flow, now_ns))
            return;
        if (now_ns >= flow->next_record_ns)
            write_record(flow);
        chunk = allowed(flow, now_ns, &due_ns);
        if (!chunk) {
            sleep_until(due_ns < flow->next_record_ns ? due_ns : flow->next_record_ns);
            continue;
        }
        written = send(flow->fd, zeros, chunk, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (written > 0)
            *flow->options->written = flow->written += (uint64_t)written;
        else if (errno == EAGAIN)
            poll(&writable, 1, INTERVAL_NS / 1000000);
        else if (errno != EINTR)
            fail("send");
    }
}

/* Waits until all data is acknowledged. */
static void await_acknowledgements(struct flow *flow)
{
    while (!stopped && outstanding(flow->fd)) {
        sleep_until(clock_ns(CLOCK_MONOTONIC) + INTERVAL_NS / 10);
        check_connection(flow->fd);
        if (clock_ns(CLOCK_MONOTONIC) >= flow->next_record_ns)
            write_record(flow);
    }
    write_record(flow);
}

/* Receives a complete response. */
static void await_answer(struct flow *flow)
{
    static uint8_t bytes[MAX_CHUNK];
    struct pollfd readable = {flow->fd, POLLIN, 0};

    for (uint64_t rest = flow->options->response_bytes; rest && !stopped;) {
        ssize_t taken = recv(flow->fd, bytes, rest < sizeof bytes ? rest : sizeof bytes,
                             MSG_DONTWAIT);

        if (taken > 0)
            rest -= (uint64_t)taken;
        else if (taken == 0 || (errno != EAGAIN && errno != EINTR))
            fail("answer");
        else
            poll(&readable, 1, INTERVAL_NS / 1000000);
        if (clock_ns(CLOCK_MONOTONIC) >= flow->next_record_ns)
            write_record(flow);
    }
}

/* Waits until a point in time. Records TCP_INFO while it waits. */
static void think(struct flow *flow, uint64_t until_ns)
{
    while (!stopped && clock_ns(CLOCK_MONOTONIC) < until_ns) {
        sleep_until(until_ns < flow->next_record_ns ? until_ns : flow->next_record_ns);
        if (clock_ns(CLOCK_MONOTONIC) >= flow->next_record_ns)
            write_record(flow);
    }
}

/* Sends all requests, each after the response to the previous request. */
static void send_requests(struct flow *flow, FILE *answers)
{
    const struct options *options = flow->options;
    struct options request = *options; /* in this copy, `bytes` is the sum of all requests so far */

    request.bytes = 0;
    flow->options = &request;
    for (uint64_t i = 0; i < options->requests && !stopped; i++) {
        struct tcp_answer answer = {.asked_ns = clock_ns(CLOCK_MONOTONIC)};

        request.bytes += options->bytes;
        write_all(flow);
        await_answer(flow);
        answer.answered_ns = clock_ns(CLOCK_MONOTONIC);
        if (!stopped && fwrite(&answer, sizeof answer, 1, answers) != 1)
            fail("answers");
        if (i + 1 < options->requests)
            think(flow, answer.answered_ns + options->think_ns);
    }
    flow->options = options;
}

/* Arguments are positional and valid, since only telemark/backends/real/traffic.py calls this
 * program. */
static struct options parse(char **argv)
{
    struct options options = {.source.sin_family = AF_INET, .destination.sin_family = AF_INET};

    if (inet_pton(AF_INET, argv[1], &options.destination.sin_addr) != 1) {
        errno = EINVAL;
        fail(argv[1]);
    }
    options.destination.sin_port = htons((uint16_t)natural(argv[2]));
    options.source.sin_port = htons((uint16_t)natural(argv[3]));
    options.tos = (int)natural(argv[4]);
    options.bytes = natural(argv[5]);
    options.duration_ns = natural(argv[6]);
    options.rate_bps = strtod(argv[7], NULL);
    options.congestion = argv[8];
    options.has_ecn = natural(argv[9]) != 0;
    options.on_ns = natural(argv[10]);
    options.off_ns = natural(argv[11]);
    options.requests = natural(argv[12]);
    options.response_bytes = natural(argv[13]);
    options.think_ns = natural(argv[14]);
    options.records = argv[15];
    options.answers = argv[16];
    options.written = map_count(argv[17], argv[18]);
    return options;
}

int main(int argc, char **argv)
{
    struct options options;
    struct flow flow = {.options = &options};
    FILE *answers;
    uint8_t byte;

    if (argc != 19) {
        fprintf(stderr, "usage: tcp_send ADDRESS PORT SOURCE_PORT TOS BYTES DURATION_NS RATE_BPS "
                        "CONGESTION ECN ON_NS OFF_NS REQUESTS RESPONSE_BYTES THINK_NS RECORDS "
                        "ANSWERS COUNTS NUMBER\n");
        return FLOW_UNUSABLE;
    }
    options = parse(argv);
    set_up_pacing();
    flow.records = open_records(options.records);
    answers = open_records(options.answers);
    if (options.has_ecn)
        enable_ecn();
    flow.fd = open_socket(&options);
    flow.start_ns = await_start();
    sleep_until(flow.start_ns);
    write_record(&flow);
    if (connect(flow.fd, (struct sockaddr *)&options.destination, sizeof options.destination))
        fail("connect");
    if (options.requests)
        send_requests(&flow, answers);
    else
        write_all(&flow);
    await_acknowledgements(&flow);
    if (fclose(flow.records) != 0 || fclose(answers) != 0)
        fail(options.records);
    puts("acknowledged");
    fflush(stdout);
    /* waits until the receiver closes the connection */
    while (!stopped && recv(flow.fd, &byte, 1, 0) > 0)
        ;
    /* When the receiver has acknowledged the FIN, no packet of the flow is in flight. */
    shutdown(flow.fd, SHUT_WR);
    while (!stopped && read_info(flow.fd).tcpi_state != CLOSED)
        sleep_until(clock_ns(CLOCK_MONOTONIC) + INTERVAL_NS / 10);
    return 0;
}
