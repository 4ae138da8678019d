/* send_records INTERFACE FILE PACKETS_PER_S SECONDS CORE: the frames of a file, again and again, at a
 * pace, or (0) as fast as they go. FILE has of each its length (32 bits) and its bytes.
 *
 * Says "here", waits for the interface to come into its network namespace, says "ready", and begins at
 * a line from standard input. Prints how many it sent, and its CPU time in ns: what the kernel does with
 * a frame up to the receiver's socket is in it. */
#define _GNU_SOURCE
#include "common.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST = 65536, ROOM = 256, BATCH = 64, NAP_NS = 5000, PATIENCE_MS = 10000 };

static struct {
    uint32_t length;
    uint8_t bytes[ROOM];
} frames[MOST];

static unsigned read_frames(const char *path)
{
    FILE *file = fopen(path, "rb");
    unsigned count = 0;

    if (!file)
        fail(path);
    while (count < MOST && fread(&frames[count].length, 4, 1, file) == 1) {
        if (frames[count].length > ROOM ||
            fread(frames[count].bytes, frames[count].length, 1, file) != 1)
            fail("a frame");
        count++;
    }
    fclose(file);
    return count;
}

static int open_socket(const char *interface)
{
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    struct ifreq request = {.ifr_flags = IFF_UP};

    for (int naps = 0; !if_nametoindex(interface); naps++) {
        if (naps == PATIENCE_MS)
            fail(interface);
        usleep(1000);
    }
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    if (ioctl(fd, SIOCSIFFLAGS, &request))
        fail("SIOCSIFFLAGS");
    set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20);
    bind_packets(fd, interface, 0);
    return fd;
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

static uint64_t cpu_ns(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

int main(int argc, char **argv)
{
    static struct iovec parts[BATCH];
    static struct mmsghdr messages[BATCH];

    if (argc != 6)
        return 2;
    say("here");
    unsigned kinds = read_frames(argv[2]);
    uint64_t rate = strtoull(argv[3], NULL, 10), duration_ns = (uint64_t)(atof(argv[4]) * 1e9);
    pin(atoi(argv[5]));
    prctl(PR_SET_TIMERSLACK, 1);
    int fd = open_socket(argv[1]);
    say("ready");
    getchar();

    uint64_t sent = 0, used_ns = cpu_ns(), start_ns = clock_ns(), now_ns = start_ns;
    for (; now_ns - start_ns < duration_ns; now_ns = clock_ns()) {
        uint64_t due = rate ? (now_ns - start_ns) * rate / 1000000000 : sent + BATCH;
        unsigned count = due - sent > BATCH ? BATCH : (unsigned)(due - sent);

        for (unsigned i = 0; i < count; i++) {
            unsigned kind = (unsigned)((sent + i) % kinds);

            parts[i] = (struct iovec){frames[kind].bytes, frames[kind].length};
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        }
        if (!count)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        int done = count ? sendmmsg(fd, messages, count, 0) : 0;
        sent += done > 0 ? (uint64_t)done : 0;
    }
    printf("%llu %llu\n", (unsigned long long)sent, (unsigned long long)(cpu_ns() - used_ns));
    return 0;
}
