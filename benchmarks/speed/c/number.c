/* number INTERFACE FILE SPOILED_EVERY: sends numbered records by RoCEv2 WRITE ONLY at the maximum rate.
 * FILE is the frame of record 0 without the record and the iCRC.
 *
 * Record n goes to slot n. The eleven words of record n are (n + 1) times 1, 3, 5, ..., 21. In one
 * of SPOILED_EVERY records, a bit is flipped after the iCRC was computed. The receiver must reject
 * this record.
 *
 * Prints "ready". For each line "FIRST COUNT" on standard input it sends these records and prints
 * "sent". It exits at the end of its input. */
#define _GNU_SOURCE
#include "common.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>

#include "crc.h"

enum {
    NETWORK_AT = 14, PSN_AT = 51, VA_AT = 54, RECORD_AT = 70, WORDS = 11, RECORD = 4 * WORDS,
    FRAME = RECORD_AT + RECORD + 4, BURST = 64, BUFFER = 4 << 20
};

/* The iCRC counts variant fields as ones (IBTA A17.3.3); offsets are from the IP header. */
static const struct crc_mask masked = {{
    [1] = 0xff, [8] = 0xff, [10] = 0xff, 0xff, [26] = 0xff, 0xff, [32] = 0xff,
}};
static uint8_t frames[BURST][FRAME];
static uint64_t base;

static void read_frame(const char *path)
{
    FILE *file = fopen(path, "rb");

    if (!file || fread(frames[0], FRAME, 1, file) != 1)
        fail(path);
    fclose(file);
    for (int i = 1; i < BURST; i++)
        memcpy(frames[i], frames[0], FRAME);
    memcpy(&base, frames[0] + VA_AT, sizeof base);
    base = be64toh(base);
}

static void write_record(uint8_t *frame, uint32_t number, bool is_spoiled)
{
    uint32_t psn = htobe32(number << 8), crc;
    uint64_t address = htobe64(base + (uint64_t)number * RECORD);

    memcpy(frame + PSN_AT, &psn, 3);
    memcpy(frame + VA_AT, &address, sizeof address);
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t word = htobe32((number + 1) * (2 * i + 1));

        memcpy(frame + RECORD_AT + 4 * i, &word, sizeof word);
    }
    crc = htole32(~crc_add(crc_after_lrh, frame + NETWORK_AT, FRAME - NETWORK_AT - 4, &masked));
    memcpy(frame + RECORD_AT + RECORD, &crc, sizeof crc);
    frame[RECORD_AT] ^= is_spoiled;
}

/* Sends each frame once. If the kernel drops a frame between the two ends of a veth pair,
 * sendmmsg() returns before it has sent all frames (Linux 6.7 and newer). It returns an error only
 * if the dropped frame was the first frame of the call. The frame counts as dropped and is not sent
 * again. */
static void send_all(int fd, struct mmsghdr *messages, unsigned count)
{
    for (unsigned sent = 0; sent < count; sent++) {
        int done = sendmmsg(fd, messages + sent, count - sent, 0);

        if (done < 0 && errno != ENOBUFS)
            fail("sendmmsg");
        sent += done < 0 ? 0 : (unsigned)done;
    }
}

int main(int argc, char **argv)
{
    static struct iovec parts[BURST];
    static struct mmsghdr messages[BURST];
    unsigned first, count, spoiled_every;
    int fd = socket(AF_PACKET, SOCK_RAW, 0); /* protocol 0: the socket receives no frames */

    if (argc != 4)
        return 2;
    read_frame(argv[2]);
    spoiled_every = (unsigned)atoi(argv[3]);
    set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER);
    bind_packets(fd, argv[1], 0);
    for (int i = 0; i < BURST; i++) {
        parts[i] = (struct iovec){frames[i], FRAME};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    puts("ready");
    fflush(stdout);
    while (scanf("%u %u", &first, &count) == 2) {
        for (unsigned end = first + count; first < end; first += count) {
            count = end - first < BURST ? end - first : BURST;
            for (unsigned i = 0; i < count; i++)
                write_record(frames[i], first + i, (first + i) % spoiled_every == 0);
            send_all(fd, messages, count);
        }
        puts("sent");
        fflush(stdout);
    }
    return 0;
}
