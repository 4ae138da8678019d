/* generate INTERFACE PACKETS_PER_S SECONDS BYTES CORE: IPv4/UDP frames to random addresses in
 * 10.0.0.0/12, at a pace (it sleeps in between) or (0) as fast as they go. */
#define _GNU_SOURCE
#include "common.h"

#include <sys/prctl.h>

#include "frames.h"

enum { NAP_NS = 5000, BATCH = 64 };

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    uint64_t rate = strtoull(argv[2], NULL, 10);
    uint64_t duration_ns = (uint64_t)(atof(argv[3]) * 1e9);
    unsigned length = (unsigned)atoi(argv[4]);
    pin(atoi(argv[5]));
    prctl(PR_SET_TIMERSLACK, 1);
    make_frames(length);
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20);
    bind_packets(fd, argv[1], 0);

    static struct iovec parts[BATCH];
    static struct mmsghdr messages[BATCH];
    uint64_t sent = 0, start_ns = clock_ns(), now_ns = start_ns;
    for (; now_ns - start_ns < duration_ns; now_ns = clock_ns()) {
        uint64_t due = rate ? (now_ns - start_ns) * rate / 1000000000 : sent + BATCH;
        unsigned count = due - sent > BATCH ? BATCH : (unsigned)(due - sent);
        for (unsigned i = 0; i < count; i++) {
            uint8_t *frame = frames[(sent + i) % KINDS];
            parts[i] = (struct iovec){frame, length};
            messages[i].msg_hdr.msg_iov = &parts[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        if (!count)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        int done = count ? sendmmsg(fd, messages, count, 0) : 0;
        sent += done > 0 ? (uint64_t)done : 0;
    }
    printf("%llu %llu\n", (unsigned long long)sent, (unsigned long long)(now_ns - start_ns));
    return 0;
}
