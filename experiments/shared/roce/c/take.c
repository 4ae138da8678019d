/* take udp|packet|nothing ADDRESS INTERFACE PORT NAP_US: receives reports in UDP datagrams, like a
 * collector without RDMA, from a UDP socket or from the ring of a packet socket. `nothing` uses
 * such a ring, too, but does not read the frames. One of keep_*.c stores the reports.
 *
 * NAP_US is the time to sleep after frames have arrived, so that more frames arrive together; 0
 * means no sleep. Prints "ready". At a line on standard input, prints the number of received frames
 * and the number that the kernel dropped. Exits at the end of its input. */
#define _GNU_SOURCE
#include "keep.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sock_diag.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 64, BUFFER = 64 << 20,
    SLOT = 2048, SLOTS = 4096, BLOCK = 65536,
    PROTOCOL_AT = 23, PORT_AT = 36, PAYLOAD_AT = 42 /* offsets of fields in an IPv4 frame */
};

struct collector {
    bool is_udp, is_reading;
    int fd;
    uint16_t port;
    uint8_t *slots;
    unsigned head;
    uint64_t received;
};

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static void set_option(int fd, int level, int option, const void *value, socklen_t size)
{
    if (setsockopt(fd, level, option, value, size))
        fail("setsockopt");
}

static bool take_datagrams(struct collector *collector)
{
    static uint8_t bytes[BATCH][REPORT];
    static struct iovec parts[BATCH];
    static struct mmsghdr messages[BATCH];
    uint64_t before = collector->received;
    int came;

    do {
        for (int i = 0; i < BATCH; i++) {
            parts[i] = (struct iovec){bytes[i], REPORT};
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        }
        came = recvmmsg(collector->fd, messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < came; i++)
            if (messages[i].msg_len == report_bytes)
                keep(bytes[i], collector->received++);
    } while (came == BATCH);
    return collector->received != before;
}

static void take_frame(struct collector *collector, const struct tpacket2_hdr *slot)
{
    const uint8_t *frame = (const uint8_t *)slot + slot->tp_mac;

    if (!collector->is_reading)
        collector->received++;
    else if (slot->tp_snaplen >= PAYLOAD_AT + report_bytes && frame[PROTOCOL_AT] == IPPROTO_UDP &&
             (frame[PORT_AT] << 8 | frame[PORT_AT + 1]) == collector->port)
        keep(frame + PAYLOAD_AT, collector->received++);
}

static bool take_frames(struct collector *collector)
{
    uint64_t before = collector->received;

    for (;; collector->head++) {
        struct tpacket2_hdr *slot =
            (void *)(collector->slots + (size_t)(collector->head % SLOTS) * SLOT);

        if (!(__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
            return collector->received != before;
        take_frame(collector, slot);
        __atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    }
}

/* If another socket receives the frames (`takes_all` is false), this socket only suppresses ICMP
 * "port unreachable" messages. */
static int open_udp(const char *address, uint16_t port, bool takes_all)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port),
                              .sin_addr.s_addr = inet_addr(address)};
    struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {1, &none};
    int fd = socket(AF_INET, SOCK_DGRAM, 0), buffer = BUFFER;

    set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    if (!takes_all)
        set_option(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    if (bind(fd, (struct sockaddr *)&own, sizeof own))
        fail(address);
    return fd;
}

static void open_ring(struct collector *collector, const char *interface)
{
    struct tpacket_req request = {.tp_block_size = BLOCK, .tp_block_nr = SLOT * SLOTS / BLOCK,
                                  .tp_frame_size = SLOT, .tp_frame_nr = SLOTS};
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex(interface)};
    int version = TPACKET_V2, yes = 1, fd = socket(AF_PACKET, SOCK_RAW, 0);

    set_option(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version);
    set_option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes);
    set_option(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request);
    collector->slots = mmap(NULL, SLOT * SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (collector->slots == MAP_FAILED || bind(fd, (struct sockaddr *)&address, sizeof address))
        fail(interface);
    collector->fd = fd;
}

static unsigned drops(const struct collector *collector)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    struct tpacket_stats found = {0};
    bool is_udp = collector->is_udp;
    socklen_t size = is_udp ? sizeof memory : sizeof found;

    getsockopt(collector->fd, is_udp ? SOL_SOCKET : SOL_PACKET,
               is_udp ? SO_MEMINFO : PACKET_STATISTICS, is_udp ? (void *)memory : (void *)&found,
               &size);
    return is_udp ? memory[SK_MEMINFO_DROPS] : found.tp_drops;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    struct collector collector = {.is_udp = !strcmp(argv[1], "udp"),
                                  .is_reading = strcmp(argv[1], "nothing"),
                                  .port = (uint16_t)atoi(argv[4])};
    struct timespec nap = {.tv_nsec = atol(argv[5]) * 1000};
    int udp = open_udp(argv[2], collector.port, collector.is_udp);

    if (collector.is_udp)
        collector.fd = udp;
    else
        open_ring(&collector, argv[3]);
    struct pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0}, {collector.fd, POLLIN, 0}};

    puts("ready");
    fflush(stdout);
    for (bool is_over = false; !is_over; is_over = waiting[0].revents) {
        bool some_came = collector.is_udp ? take_datagrams(&collector) : take_frames(&collector);
        bool is_to_nap = some_came && nap.tv_nsec;

        if (ppoll(waiting, is_to_nap ? 1 : 2, is_to_nap ? &nap : NULL, NULL) < 0 && errno != EINTR)
            fail("ppoll");
    }
    while (collector.is_udp ? take_datagrams(&collector) : take_frames(&collector))
        ;
    printf("%llu %u\n", (unsigned long long)collector.received, drops(&collector));
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
