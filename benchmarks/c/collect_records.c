/* collect_records udp ADDRESS PORT | packet INTERFACE PORT: records of 44 bytes in UDP datagrams, kept
 * in a ring and indexed by flow, as collectors do whose switches send reports.
 *
 * Says "ready". When standard input ends it prints how many came, how many the kernel dropped, and
 * the CPU time in ns. */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <unistd.h>

enum {
    RECORD = 44, KEY = 36, RECORDS = 65536, ENTRIES = 1 << 17,
    BATCH = 64, BUFFER = 64 << 20, UDP_AT = 34, PAYLOAD_AT = 42
};

struct entry {
    uint8_t key[KEY];
    uint32_t last, count; /* where its last record is, and how many there were */
};

static uint8_t ring[RECORDS][RECORD];
static struct entry entries[ENTRIES];
static uint64_t received;

static uint32_t hash(const uint8_t *key)
{
    uint64_t sum = 0, word;

    for (int at = 0; at < 32; at += 8) {
        memcpy(&word, key + at, sizeof word);
        sum = (sum ^ word) * 0x9fb21c651e98df25u;
        sum ^= sum >> 32;
    }
    memcpy(&word, key + KEY - 8, sizeof word);
    return (uint32_t)((sum ^ word) * 0x9fb21c651e98df25u >> 40) % ENTRIES;
}

static void keep(const uint8_t *record)
{
    uint32_t place = (uint32_t)(received++ % RECORDS), at = hash(record);

    memcpy(ring[place], record, RECORD);
    while (entries[at].count && memcmp(entries[at].key, record, KEY))
        at = (at + 1) % ENTRIES;
    if (!entries[at].count++)
        memcpy(entries[at].key, record, KEY);
    entries[at].last = place;
}

/* What waits at a socket. */
static void take_datagrams(int fd)
{
    static uint8_t bytes[BATCH][RECORD];
    static struct iovec parts[BATCH];
    static struct mmsghdr messages[BATCH];
    int came;

    do {
        for (int i = 0; i < BATCH; i++) {
            parts[i] = (struct iovec){bytes[i], RECORD};
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        }
        came = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < came; i++)
            if (messages[i].msg_len == RECORD)
                keep(bytes[i]);
    } while (came > 0);
}

/* What waits in a ring. */
static void take_frames(uint8_t *slots, uint16_t port)
{
    static unsigned head;
    struct tpacket2_hdr *slot;

    while (is_full(slot = (void *)(slots + (size_t)(head % SLOTS) * SLOT_SIZE))) {
        const uint8_t *frame = (const uint8_t *)slot + slot->tp_mac;

        if (slot->tp_snaplen >= PAYLOAD_AT + RECORD && frame[23] == IPPROTO_UDP &&
            (frame[UDP_AT + 2] << 8 | frame[UDP_AT + 3]) == port)
            keep(frame + PAYLOAD_AT);
        give_back(slot);
        head++;
    }
}

static int open_udp(const char *address, uint16_t port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port),
                              .sin_addr.s_addr = inet_addr(address)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER);
    if (bind(fd, (struct sockaddr *)&own, sizeof own))
        fail(address);
    return fd;
}

static unsigned drops(int fd, int is_udp)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    struct tpacket_stats found = {0};
    socklen_t size = is_udp ? sizeof memory : sizeof found;

    getsockopt(fd, is_udp ? SOL_SOCKET : SOL_PACKET, is_udp ? SO_MEMINFO : PACKET_STATISTICS,
               is_udp ? (void *)memory : (void *)&found, &size);
    return is_udp ? memory[SK_MEMINFO_DROPS] : found.tp_drops;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int is_udp = !strcmp(argv[1], "udp");
    uint16_t port = (uint16_t)atoi(argv[3]);
    int fd = is_udp ? open_udp(argv[2], port) : socket(AF_PACKET, SOCK_RAW, 0);
    uint8_t *slots = is_udp ? NULL : open_ring(fd, argv[2]);
    struct pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0}, {fd, POLLIN, 0}};
    struct timespec used;

    puts("ready");
    fflush(stdout);
    while (poll(waiting, 2, -1) >= 0 || errno == EINTR) {
        if (is_udp)
            take_datagrams(fd);
        else
            take_frames(slots, port);
        if (waiting[0].revents)
            break;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    printf("%llu %u %llu\n", (unsigned long long)received, drops(fd, is_udp),
           (unsigned long long)used.tv_sec * 1000000000 + (unsigned long long)used.tv_nsec);
    return 0;
}
