/* offer INTERFACE FILE FRAMES_PER_S SECONDS: sends the frames of a file repeatedly, in bursts at a
 * given rate or, with 0, at max rate. For each frame, FILE has the length (32 bits) and the bytes.
 *
 * Prints "here", waits until the interface is in its network namespace, and prints "ready". Starts
 * at a line on standard input. Prints the number of sent frames and the duration in ns. Exits at
 * the end of its input. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 65536, ROOM = 256, BURST = 64, BUFFER = 4 << 20, PATIENCE_MS = 10000 };

static const uint64_t second_ns = 1000000000;

static struct {
    uint32_t length;
    uint8_t bytes[ROOM];
} frames[MOST];

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

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
    struct sockaddr_ll address = {.sll_family = AF_PACKET}; /* protocol 0: it receives no frames */
    struct ifreq request = {.ifr_flags = IFF_UP};
    int fd = socket(AF_PACKET, SOCK_RAW, 0), buffer = BUFFER;

    for (int naps = 0; !(address.sll_ifindex = (int)if_nametoindex(interface)); naps++) {
        if (naps == PATIENCE_MS)
            fail(interface);
        usleep(1000);
    }
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    if (ioctl(fd, SIOCSIFFLAGS, &request) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer) ||
        bind(fd, (struct sockaddr *)&address, sizeof address))
        fail(interface);
    return fd;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * second_ns + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t time_ns)
{
    struct timespec time = {(time_t)(time_ns / second_ns), (long)(time_ns % second_ns)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

/* Sends frames in one call, from frame `sent` on; returns how many frames the interface accepted.
 * The call ends at a frame that the interface drops (and counts). From Linux 6.7 on, veth reports
 * the drop (ENOBUFS), but only if the dropped frame was the first frame of the call. */
static uint64_t send_burst(int fd, uint64_t sent, unsigned kinds)
{
    static struct iovec parts[BURST];
    static struct mmsghdr messages[BURST];
    int done;

    for (unsigned i = 0; i < BURST; i++) {
        unsigned kind = (unsigned)((sent + i) % kinds);

        parts[i] = (struct iovec){frames[kind].bytes, frames[kind].length};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    done = sendmmsg(fd, messages, BURST, 0);
    if (done < 0 && errno != ENOBUFS)
        fail("sendmmsg");
    done = done < 0 ? 0 : done;
    return (uint64_t)(done < BURST ? done + 1 : done);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    unsigned kinds = read_frames(argv[2]);
    uint64_t rate = strtoull(argv[3], NULL, 10), sent = 0, began_ns, ended_ns;
    uint64_t duration_ns = (uint64_t)(atof(argv[4]) * (double)second_ns);

    prctl(PR_SET_TIMERSLACK, 1);
    say("here");
    int fd = open_socket(argv[1]);

    say("ready");
    getchar();
    began_ns = now_ns();
    while ((ended_ns = now_ns()) - began_ns < duration_ns) {
        if (rate)
            sleep_until(began_ns + sent * second_ns / rate);
        sent += send_burst(fd, sent, kinds);
    }
    printf("%llu %llu\n", (unsigned long long)sent, (unsigned long long)(ended_ns - began_ns));
    fflush(stdout);
    getchar();
    return 0;
}
