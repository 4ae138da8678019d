/* generate INTERFACE PACKETS_PER_S SECONDS BYTES CORE TRAIN: sends IPv4/UDP frames to random
 * addresses in 10.0.0.0/12, with TRAIN consecutive frames to each address. It sleeps between trains
 * to keep the rate. If the rate is 0, it sends at the maximum rate. The kernel splits a train into
 * frames (GSO), which doubles the maximum rate. */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <linux/virtio_net.h>
#include <sys/prctl.h>

#include "frames.h"

enum { NAP_NS = 5000, BATCH = 64, MAX_TRAIN = 64, GSO_UDP_L4 = 5 /* since Linux 6.2 */ };

static struct virtio_net_hdr offload; /* all zeros mean a frame without offload */
static uint8_t payloads[MAX_TRAIN * MAX_FRAME];

/* Sets the lengths in the headers of each frame to those of a whole train. The kernel splits a
 * train into frames, and computes their checksums. */
static void make_trains(unsigned length, unsigned train)
{
    unsigned payload = length - HEADERS, size = 8 + train * payload;
    offload = (struct virtio_net_hdr){
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_type = GSO_UDP_L4, .hdr_len = HEADERS,
        .gso_size = (uint16_t)payload, .csum_start = 34, .csum_offset = 6,
    };
    for (int i = 0; i < KINDS; i++) {
        uint8_t *ip = frames[i] + 14, *udp = ip + 20;
        put16(ip + 2, 20 + size);
        put16(udp + 4, size);
        put16(udp + 6, (uint16_t)~udp_checksum(ip, size));
    }
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    uint64_t rate = strtoull(argv[2], NULL, 10);
    uint64_t duration_ns = (uint64_t)(atof(argv[3]) * 1e9);
    unsigned length = (unsigned)atoi(argv[4]), train = (unsigned)atoi(argv[6]);
    if (train < 1 || train > MAX_TRAIN)
        return 2;
    pin(atoi(argv[5]));
    prctl(PR_SET_TIMERSLACK, 1);
    make_frames(length);
    if (train > 1)
        make_trains(length, train);
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20);
    set_option(fd, SOL_PACKET, PACKET_VNET_HDR, 1);
    bind_packets(fd, argv[1], 0);

    static struct iovec parts[BATCH][3];
    static struct mmsghdr messages[BATCH];
    /* `sent` is the number of trains */
    uint64_t sent = 0, start_ns = clock_ns(), now_ns = start_ns;
    for (; now_ns - start_ns < duration_ns; now_ns = clock_ns()) {
        uint64_t due = rate ? (now_ns - start_ns) * rate / train / 1000000000 : sent + BATCH;
        unsigned count = due - sent > BATCH ? BATCH : (unsigned)(due - sent);
        for (unsigned i = 0; i < count; i++) {
            uint8_t *frame = frames[(sent + i) % KINDS];
            parts[i][0] = (struct iovec){&offload, sizeof offload};
            parts[i][1] = (struct iovec){frame, HEADERS};
            parts[i][2] = (struct iovec){payloads, (length - HEADERS) * train};
            messages[i].msg_hdr.msg_iov = parts[i];
            messages[i].msg_hdr.msg_iovlen = 3;
        }
        if (!count)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        int done = count ? sendmmsg(fd, messages, count, 0) : 0;
        if (done < 0 && errno == EINVAL)
            fail("a train of UDP frames (needs Linux 6.2)");
        sent += done > 0 ? (uint64_t)done : 0;
    }
    printf("%llu %llu\n", (unsigned long long)sent * train,
           (unsigned long long)(now_ns - start_ns));
    return 0;
}
