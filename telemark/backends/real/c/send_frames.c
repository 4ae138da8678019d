/* Sends raw frames over an interface. Each frame has a send time. If this time has passed, the
 * frame is sent immediately.
 *
 * The file contains, in the byte order of this machine: the number of frames (64 bits), their times (64
 * bits each, CLOCK_MONOTONIC, ascending), their lengths (32 bits each), and their concatenated bytes. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include "flow.h"
#include "pace.h"

struct frames {
    uint64_t count, *time_ns;
    uint32_t *length;
    uint8_t *bytes;
};

static void *read_array(FILE *file, const char *path, uint64_t count, size_t size)
{
    void *array = malloc(count * size + 1);

    if (!array || fread(array, size, count, file) != count)
        fail(path);
    return array;
}

static struct frames read_frames(const char *path)
{
    struct frames frames;
    FILE *file = fopen(path, "rb");
    uint64_t bytes = 0;

    if (!file || fread(&frames.count, sizeof frames.count, 1, file) != 1)
        fail(path);
    frames.time_ns = read_array(file, path, frames.count, sizeof *frames.time_ns);
    frames.length = read_array(file, path, frames.count, sizeof *frames.length);
    for (uint64_t i = 0; i < frames.count; i++)
        bytes += frames.length[i];
    frames.bytes = read_array(file, path, bytes, 1);
    fclose(file);
    return frames;
}

static int open_socket(const char *interface)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = 0};
    /* protocol 0: the socket receives nothing */
    int large = 8 << 20, fd = socket(AF_PACKET, SOCK_RAW, 0);

    address.sll_ifindex = (int)if_nametoindex(interface);
    if (fd < 0 || !address.sll_ifindex)
        fail(interface);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address))
        fail(interface);
    return fd;
}

static void send_batch(int fd, uint8_t *bytes, const uint32_t *length, unsigned number)
{
    struct mmsghdr messages[FLOW_BATCH] = {0};
    struct iovec vectors[FLOW_BATCH];

    for (unsigned i = 0; i < number; bytes += length[i++]) {
        vectors[i] = (struct iovec){bytes, length[i]};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    send_messages(fd, messages, number);
}

/* Sends the frames. Returns the number of sent frames, and sets `largest_lag_ns`. */
static uint64_t send_all(int fd, const struct frames *frames, uint64_t max_lag_ns,
                         uint64_t *largest_lag_ns)
{
    uint64_t began_ns = clock_ns(CLOCK_MONOTONIC), not_before_ns = 0, next = 0;
    uint8_t *bytes = frames->bytes;

    while (next < frames->count && !stopped && *largest_lag_ns <= max_lag_ns) {
        uint64_t due = frames->time_ns[next] > began_ns ? frames->time_ns[next] : began_ns, now;
        unsigned number = 0;

        sleep_until(due > not_before_ns ? due : not_before_ns);
        now = clock_ns(CLOCK_MONOTONIC);
        while (number < FLOW_BATCH && next + number < frames->count &&
               frames->time_ns[next + number] <= now)
            number++;
        if (number == 0) /* a signal woke the sender */
            continue;
        send_batch(fd, bytes, frames->length + next, number);
        for (unsigned i = 0; i < number; i++)
            bytes += frames->length[next++];
        *largest_lag_ns = now - due > *largest_lag_ns ? now - due : *largest_lag_ns;
        not_before_ns = now + TICK_NS;
    }
    return next;
}

/* Arguments are positional, since only telemark/backends/real/traffic.py calls this program. */
int main(int argc, char **argv)
{
    uint64_t largest_lag_ns = 0, sent;
    struct frames frames;

    if (argc != 4) {
        fprintf(stderr, "usage: send_frames INTERFACE FILE MAX_LAG_NS\n");
        return FLOW_UNUSABLE;
    }
    frames = read_frames(argv[2]);
    set_up_pacing();
    sent = send_all(open_socket(argv[1]), &frames, natural(argv[3]), &largest_lag_ns);
    printf("{\"sent\": %lu, \"largest_lag_ns\": %lu}\n", sent, largest_lag_ns);
    return largest_lag_ns > natural(argv[3]) ? FLOW_RATE_NOT_KEPT : 0;
}
