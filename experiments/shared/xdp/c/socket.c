/* AF_XDP socket that receives packets and returns them unread, which is the min work per packet. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAME_BYTES = 2048, LONGEST_WAIT_MS = 10 };

struct ring {
    uint32_t *producer, *consumer;
    void *entries;
};

struct taker {
    int socket;
    uint32_t size; /* entries per ring and number of frames, a power of two */
    void *memory;
    struct ring filled, received;
};

static int set(int socket, int option, uint32_t value)
{
    return setsockopt(socket, SOL_XDP, option, &value, sizeof value);
}

static int map(int socket, const struct xdp_ring_offset *at, size_t bytes, off_t page,
               struct ring *ring)
{
    char *place = mmap(NULL, at->desc + bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                       socket, page);

    if (place == MAP_FAILED)
        return -1;
    ring->producer = (uint32_t *)(place + at->producer);
    ring->consumer = (uint32_t *)(place + at->consumer);
    ring->entries = place + at->desc;
    return 0;
}

static int make(struct taker *taker, const char *device, uint32_t queue)
{
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_queue_id = queue,
                                   .sxdp_flags = XDP_COPY,
                                   .sxdp_ifindex = if_nametoindex(device)};
    struct xdp_umem_reg memory = {.len = (uint64_t)taker->size * FRAME_BYTES,
                                  .chunk_size = FRAME_BYTES};
    struct xdp_mmap_offsets offsets;
    socklen_t length = sizeof offsets;

    taker->memory = mmap(NULL, memory.len, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (taker->memory == MAP_FAILED)
        return -1;
    memory.addr = (uintptr_t)taker->memory;
    if (setsockopt(taker->socket, SOL_XDP, XDP_UMEM_REG, &memory, sizeof memory) ||
        set(taker->socket, XDP_UMEM_FILL_RING, taker->size) ||
        set(taker->socket, XDP_UMEM_COMPLETION_RING, taker->size) ||
        set(taker->socket, XDP_RX_RING, taker->size) ||
        getsockopt(taker->socket, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) ||
        map(taker->socket, &offsets.fr, taker->size * sizeof(uint64_t),
            (off_t)XDP_UMEM_PGOFF_FILL_RING, &taker->filled) ||
        map(taker->socket, &offsets.rx, taker->size * sizeof(struct xdp_desc),
            XDP_PGOFF_RX_RING, &taker->received))
        return -1;
    for (uint32_t i = 0; i < taker->size; i++)
        ((uint64_t *)taker->filled.entries)[i] = (uint64_t)i * FRAME_BYTES;
    __atomic_store_n(taker->filled.producer, taker->size, __ATOMIC_RELEASE);
    return bind(taker->socket, (struct sockaddr *)&address, sizeof address);
}

void taker_close(struct taker *taker)
{
    close(taker->socket); /* the kernel unmaps the rings when the process exits */
    if (taker->memory != MAP_FAILED)
        munmap(taker->memory, (size_t)taker->size * FRAME_BYTES);
    free(taker);
}

/* Opens a socket at a queue of a device, with rings of `size` packets; on errors, returns NULL and
 * sets errno. */
struct taker *taker_open(const char *device, uint32_t queue, uint32_t size)
{
    struct taker *taker = calloc(1, sizeof *taker);
    int error;

    if (!taker)
        return NULL;
    taker->size = size;
    taker->memory = MAP_FAILED;
    taker->socket = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (taker->socket >= 0 && !make(taker, device, queue))
        return taker;
    error = errno;
    taker_close(taker);
    errno = error;
    return NULL;
}

int taker_socket(const struct taker *taker)
{
    return taker->socket;
}

/* Receives all available packets; returns their number. */
uint32_t taker_take(struct taker *taker)
{
    uint32_t end = __atomic_load_n(taker->received.producer, __ATOMIC_ACQUIRE);
    uint32_t at = *taker->received.consumer, given = *taker->filled.producer;
    uint32_t mask = taker->size - 1, packets = end - at;
    const struct xdp_desc *packet = taker->received.entries;
    uint64_t *frames = taker->filled.entries;

    for (; at != end; at++, given++)
        frames[given & mask] = packet[at & mask].addr & ~(uint64_t)(FRAME_BYTES - 1);
    __atomic_store_n(taker->received.consumer, at, __ATOMIC_RELEASE);
    __atomic_store_n(taker->filled.producer, given, __ATOMIC_RELEASE);
    return packets;
}

/* Receives packets until `*stops` is set and no packet is left; returns their number.
 * `sleeps`: whether it sleeps while there are no packets. */
uint64_t taker_follow(struct taker *taker, const int *stops, int sleeps)
{
    struct pollfd waited = {.fd = taker->socket, .events = POLLIN};
    uint64_t packets = 0;

    for (;;) {
        int last = __atomic_load_n(stops, __ATOMIC_ACQUIRE);
        uint32_t taken = taker_take(taker);

        packets += taken;
        if (!taken && last)
            return packets;
        if (!taken && sleeps)
            poll(&waited, 1, LONGEST_WAIT_MS);
    }
}
