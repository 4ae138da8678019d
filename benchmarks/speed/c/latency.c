/* latency OUT IN PACKETS_PER_S SECONDS BYTES CORE: sends frames at a constant rate, and receives
 * them again. One thread does both. It never sleeps, so only the switch may have to wait for a
 * core. Prints the numbers of sent and of received frames, and the 50th percentile, 99th percentile
 * and maximum of the delay in ns. */
#define _GNU_SOURCE
#include "common.h"

#include "frames.h"

enum { MAX_SAMPLES = 1 << 22 };

#define LAST_WAIT_NS UINT64_C(100000000) /* maximum wait for the last frames */

static uint64_t delay_ns[MAX_SAMPLES];

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Returns whether this program sent the frame (and not, for example, the kernel). */
static int is_ours(const struct tpacket2_hdr *slot, unsigned length)
{
    static const uint8_t ipv4_type[] = {8, 0};
    return slot->tp_len == length && !memcmp((uint8_t *)slot + slot->tp_mac + 12, ipv4_type, 2);
}

static size_t receive(uint8_t *ring, unsigned length, size_t count)
{
    static unsigned at;
    struct tpacket2_hdr *slot = (void *)(ring + (size_t)at * SLOT_SIZE);
    uint64_t sent_ns;
    if (!is_full(slot) || count == MAX_SAMPLES)
        return count;
    if (is_ours(slot, length)) {
        memcpy(&sent_ns, (uint8_t *)slot + slot->tp_mac + HEADERS, sizeof sent_ns);
        delay_ns[count++] = clock_ns() - sent_ns;
    }
    give_back(slot);
    at = (at + 1) % SLOTS;
    return count;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    uint64_t rate = strtoull(argv[3], NULL, 10), sent = 0;
    uint64_t duration_ns = (uint64_t)(atof(argv[4]) * 1e9);
    unsigned length = (unsigned)atoi(argv[5]);
    make_frames(length);
    pin(atoi(argv[6]));
    int in = socket(AF_PACKET, SOCK_RAW, 0), out = socket(AF_PACKET, SOCK_RAW, 0);
    uint8_t *ring = open_ring(in, argv[2]);
    bind_packets(out, argv[1], 0);
    size_t count = 0;
    for (uint64_t start_ns = clock_ns(), now_ns = start_ns;
         now_ns - start_ns < duration_ns + LAST_WAIT_NS; now_ns = clock_ns()) {
        count = receive(ring, length, count);
        if (now_ns - start_ns > duration_ns || (now_ns - start_ns) * rate / 1000000000 <= sent)
            continue;
        memcpy(frames[sent % KINDS] + HEADERS, &now_ns, sizeof now_ns);
        if (send(out, frames[sent % KINDS], length, 0) < 0)
            fail("send");
        sent++;
    }
    if (!count) {
        fprintf(stderr, "%s: no frame was received\n", argv[2]);
        return 2;
    }
    qsort(delay_ns, count, sizeof *delay_ns, compare);
    printf("%llu %zu %llu %llu %llu\n", (unsigned long long)sent, count,
           (unsigned long long)delay_ns[count / 2], (unsigned long long)delay_ns[count * 99 / 100],
           (unsigned long long)delay_ns[count - 1]);
    return 0;
}
