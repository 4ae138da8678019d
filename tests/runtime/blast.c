/* `blast INTERFACE COUNT` sends frames as fast as it can. `blast INTERFACE` checks received frames
 * until SIGTERM. A frame is torn if parts of two entries wrote it: then its addresses differ. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { BATCH = 64, FRAME = 60 };

static struct mmsghdr messages[BATCH];
static struct iovec vectors[BATCH];
static uint8_t frames[BATCH][FRAME];

static int open_socket(const char *interface)
{
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex(interface)};
    int room = 64 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    struct timeval second = {.tv_sec = 1};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    int ignore = 1;
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignore, sizeof ignore);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address)) {
        perror(interface);
        exit(1);
    }
    return fd;
}

static void blast(int fd, uint64_t count)
{
    uint64_t sent = 0;
    while (sent < count) {
        int n = sendmmsg(fd, messages, BATCH, 0);
        sent += n > 0 ? (uint64_t)n : 0;
    }
    printf("{\"sent\": %llu}\n", (unsigned long long)sent);
}

static volatile sig_atomic_t is_over;

static void end(int number)
{
    is_over = number;
}

static void check(int fd)
{
    uint64_t received = 0, torn = 0;
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    puts("listening");
    fflush(stdout);
    for (;;) {
        int last = is_over; /* frames that have already arrived are still read */
        int n = recvmmsg(fd, messages, BATCH, last ? MSG_DONTWAIT : MSG_WAITFORONE, NULL);
        if (n <= 0 && last)
            break;
        for (int i = 0; i < n; i++) {
            received++;
            torn += memcmp(frames[i], frames[i] + 6, 6) != 0;
        }
    }
    printf("{\"received\": %llu, \"torn\": %llu}\n", (unsigned long long)received,
           (unsigned long long)torn);
}

int main(int argc, char **argv)
{
    static const uint8_t start[14] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x12, 0x34};
    int fd = open_socket(argv[1]);
    for (int i = 0; i < BATCH; i++) {
        memcpy(frames[i], start, sizeof start);
        vectors[i] = (struct iovec){frames[i], FRAME};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    if (argc > 2)
        blast(fd, strtoull(argv[2], NULL, 10));
    else
        check(fd);
    return 0;
}
