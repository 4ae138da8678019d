/* Sends one UDP flow by a schedule. Datagram i is due at start + i / rate, or at a time from a
 * file. A sender that is late catches up in batches of at most `burst` datagrams, at up to twice
 * the rate of the schedule. This limit avoids a flood in the queues under test. A sender that is
 * too late stops, because the machine cannot keep the rate. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "flow.h"
#include "pace.h"
#include "records.h"

struct options {
    struct sockaddr_in source, destination;
    uint16_t flow;
    uint64_t count, start_ns, max_lag_ns;
    double rate_pps;
    uint32_t payload, burst;
    int tos, ttl;
    const char *records;
    /* send time of each datagram, relative to start_ns; NULL means a constant rate */
    const uint64_t *due;
    volatile uint64_t *sent; /* number of sent datagrams, for the page of --watch */
};

struct totals {
    uint64_t sent, first_ns, last_ns, largest_lag_ns, last_lag_ns;
};

static uint64_t due_ns(const struct options *options, uint64_t sequence)
{
    if (options->due)
        return options->start_ns + options->due[sequence];
    return options->start_ns + (uint64_t)((double)sequence * 1e9 / options->rate_pps);
}

static int open_socket(const struct options *options)
{
    const struct sockaddr *source = (const struct sockaddr *)&options->source;
    int on = 1, large = 8 << 20;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (fd < 0)
        fail("socket");
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large);
    /* SO_REUSEADDR: several flows may share a source port. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, source, sizeof options->source) != 0)
        fail("source port");
    /* Without IP_RECVERR, the kernel does not report that it dropped a datagram on output
     * (ENOBUFS). */
    if (setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on) != 0 ||
        setsockopt(fd, IPPROTO_IP, IP_TOS, &options->tos, sizeof options->tos) != 0 ||
        setsockopt(fd, IPPROTO_IP, IP_TTL, &options->ttl, sizeof options->ttl) != 0)
        fail("setsockopt");
    if (connect(fd, (const struct sockaddr *)&options->destination, sizeof options->destination))
        fail("connect");
    return fd;
}

/* Sends `number` datagrams, from the given sequence number on. Returns the send time of the last
 * datagram. Each record has the times before and after the send call. The kernel's timestamp at the
 * other end of a veth pair lies between these two times. */
static uint64_t send_batch(int fd, const struct options *options, uint64_t first, unsigned number,
                           FILE *records)
{
    static uint8_t payloads[FLOW_BATCH][FLOW_MAX_PAYLOAD];
    struct mmsghdr messages[FLOW_BATCH] = {0};
    struct iovec vectors[FLOW_BATCH];
    struct flow_sent records_of[FLOW_BATCH] = {0};
    uint64_t handed_ns;

    for (unsigned i = 0; i < number; i++) {
        struct flow_payload *payload = (struct flow_payload *)payloads[i];
        struct flow_sent *record = &records_of[i];

        record->sequence = first + i;
        record->sent_ns = clock_ns(CLOCK_MONOTONIC);
        payload->flow = htobe16(options->flow);
        payload->sequence = htobe64(record->sequence);
        payload->sent_ns = htobe64(record->sent_ns);
        vectors[i] = (struct iovec){payload, options->payload};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    send_messages(fd, messages, number);
    handed_ns = clock_ns(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < number; i++)
        records_of[i].handed_ns = handed_ns;
    if (fwrite(records_of, sizeof records_of[0], number, records) != number)
        fail("records");
    return records_of[number - 1].sent_ns;
}

/* Sends the flow; returns false if the lag exceeds the limit. */
static bool send_flow(int fd, const struct options *options, FILE *records, struct totals *totals)
{
    uint64_t not_before_ns = options->start_ns;

    while (totals->sent < options->count && !stopped) {
        uint64_t due = due_ns(options, totals->sent);
        uint64_t now, last, lag, gap_ns = 0;
        unsigned number = 0;

        sleep_until(due > not_before_ns ? due : not_before_ns);
        now = clock_ns(CLOCK_MONOTONIC);
        while (number < options->burst && totals->sent + number < options->count &&
               due_ns(options, totals->sent + number) <= now)
            number++;
        if (number == 0) /* a signal woke the sender */
            continue;
        last = send_batch(fd, options, totals->sent, number, records);
        lag = last - due;
        if (totals->sent == 0)
            totals->first_ns = now;
        totals->sent += number;
        *options->sent = totals->sent;
        totals->last_ns = last;
        totals->last_lag_ns = lag;
        if (lag > totals->largest_lag_ns)
            totals->largest_lag_ns = lag;
        if (lag > options->max_lag_ns)
            return false;
        if (totals->sent < options->count)
            gap_ns = (due_ns(options, totals->sent) - due) / 2;
        not_before_ns = now + (gap_ns > TICK_NS ? gap_ns : TICK_NS);
    }
    return true;
}

static const uint64_t *read_due(const char *path, uint64_t count)
{
    FILE *file = fopen(path, "rb");
    uint64_t *due = malloc(count * sizeof *due);

    if (!file || !due || fread(due, sizeof *due, count, file) != count)
        fail(path);
    fclose(file);
    return due;
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
    options.flow = (uint16_t)natural(argv[4]);
    options.rate_pps = strtod(argv[5], NULL);
    options.count = natural(argv[6]);
    options.payload = (uint32_t)natural(argv[7]);
    options.tos = (int)natural(argv[8]);
    options.ttl = (int)natural(argv[9]);
    options.burst = (uint32_t)natural(argv[10]);
    options.max_lag_ns = natural(argv[11]);
    options.records = argv[12];
    if (strcmp(argv[13], "-") != 0)
        options.due = read_due(argv[13], options.count);
    options.sent = map_count(argv[14], argv[15]);
    if (options.payload < sizeof(struct flow_payload) || options.payload > FLOW_MAX_PAYLOAD ||
        options.burst == 0 || options.burst > FLOW_BATCH || !(options.rate_pps > 0)) {
        errno = EINVAL;
        fail("payload, burst or rate");
    }
    return options;
}

int main(int argc, char **argv)
{
    struct totals totals = {0};
    struct options options;
    FILE *records;
    bool kept;
    int fd;

    if (argc != 16) {
        fprintf(stderr, "usage: send ADDRESS PORT SOURCE_PORT FLOW RATE_PPS COUNT PAYLOAD TOS "
                        "TTL BURST MAX_LAG_NS RECORDS DUE COUNTS NUMBER\n");
        return FLOW_UNUSABLE;
    }
    options = parse(argv);
    set_up_pacing();
    records = open_records(options.records);
    fd = open_socket(&options);
    options.start_ns = await_start();
    kept = send_flow(fd, &options, records, &totals);
    if (fclose(records) != 0)
        fail(options.records);
    printf("{\"sent\": %lu, \"first_ns\": %lu, \"last_ns\": %lu, \"largest_lag_ns\": %lu, "
           "\"last_lag_ns\": %lu}\n",
           totals.sent, totals.first_ns, totals.last_ns, totals.largest_lag_ns,
           totals.last_lag_ns);
    return kept ? 0 : FLOW_RATE_NOT_KEPT;
}
