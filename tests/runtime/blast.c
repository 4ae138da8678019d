/* Sends frames as fast as they go (blast INTERFACE SECONDS), or checks those that come until none
 * has come for a second (blast INTERFACE). A frame is torn when its two addresses differ. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

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

static void blast(int fd, double seconds)
{
    struct timespec begin, now;
    uint64_t sent = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        int n = sendmmsg(fd, messages, BATCH, 0);
        sent += n > 0 ? (uint64_t)n : 0;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 <
             seconds);
    printf("{\"sent\": %llu}\n", (unsigned long long)sent);
}

static void check(int fd)
{
    uint64_t received = 0, torn = 0;
    int n;
    puts("listening");
    fflush(stdout);
    while ((n = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL)) > 0) {
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
        blast(fd, atof(argv[2]));
    else
        check(fd);
    return 0;
}
