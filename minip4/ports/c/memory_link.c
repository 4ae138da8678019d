/* Rings in shared memory. A position counts all bytes since the creation of the ring; its remainder
 * is the offset in the data. A record never wraps around: if it does not fit before the end of the
 * data, a record without a frame fills the rest. */
#define _GNU_SOURCE
#include "memory_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "packet.h"

enum {
    CACHE_LINE = 64,
    RING_SIZE = 2 * 1024 * 1024, /* 1,300 frames of 1,500 bytes, or 16,000 frames of 64 bytes */
    PATH_SIZE = 512
};

#define FILLER UINT32_MAX /* length of a record without a frame */

struct record {
    uint32_t length; /* of the frame that follows, or FILLER */
    uint32_t next;   /* bytes from here to the next record */
    uint64_t stamp_ns;
};

struct ring {
    /* written by the sender; by the receiver; by both */
    _Alignas(CACHE_LINE) atomic_uint_fast64_t head;
    _Alignas(CACHE_LINE) atomic_uint_fast64_t tail;
    _Alignas(CACHE_LINE) atomic_uint asleep;
    _Alignas(CACHE_LINE) uint8_t data[RING_SIZE];
};

struct shared {
    struct ring ring[2]; /* index: end of the sender */
};

struct memory_link {
    struct shared *shared;
    struct ring *in, *out;
    uint64_t tail, head; /* own positions: of `in` and of `out` */
    uint64_t known_tail; /* earlier value of out->tail */
    unsigned end;
    int fd;               /* of the file; it has the lock of this end */
    int wake_fd, peer_fd; /* named pipes */
};

static struct record *record_at(struct ring *ring, uint64_t position)
{
    return (struct record *)(ring->data + position % RING_SIZE);
}

/* Open the named pipe that wakes an end. Opening it for reading and writing never blocks. */
static int open_pipe(const char *path, unsigned end)
{
    char name[PATH_SIZE];
    if (snprintf(name, sizeof name, "%s.%u", path, end) >= (int)sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (mkfifo(name, 0600) && errno != EEXIST)
        return -1;
    return open(name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

/* The lock of an end is a lock on one byte of the file. When a process ends, even by SIGKILL, the
 * kernel releases its locks. */
static struct flock lock_of(unsigned end)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = end, .l_len = 1};
}

/* Open the file and lock an end of the link. */
static int open_file(const char *path, unsigned end)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock lock = lock_of(end);
    if (fd < 0 || !fcntl(fd, F_OFD_SETLK, &lock))
        return fd;
    int error = errno == EAGAIN ? EBUSY : errno;
    close(fd);
    errno = error;
    return -1;
}

/* Map the file; a new one has only zeros. fallocate() reserves the memory. Otherwise, SIGBUS would
 * end the process if there is no memory left. */
static struct shared *map(int fd)
{
    if (fallocate(fd, 0, 0, sizeof(struct shared)))
        return MAP_FAILED;
    return mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

/* Wake the other end, whether it sleeps or not. */
static void write_wake(const struct memory_link *link)
{
    ssize_t written = write(link->peer_fd, "", 1); /* a full pipe also wakes the reader */
    (void)written;
}

struct memory_link *memory_link_open(const char *path, unsigned end)
{
    struct memory_link *link = malloc(sizeof *link);
    if (!link)
        return NULL;
    *link = (struct memory_link){.shared = MAP_FAILED, .end = end, .wake_fd = -1, .peer_fd = -1};
    link->fd = open_file(path, end);
    if (link->fd < 0 || (link->shared = map(link->fd)) == MAP_FAILED ||
        (link->wake_fd = open_pipe(path, end)) < 0 || (link->peer_fd = open_pipe(path, !end)) < 0) {
        int error = errno;
        memory_link_close(link);
        errno = error;
        return NULL;
    }
    link->in = &link->shared->ring[!end];
    link->out = &link->shared->ring[end];
    link->head = atomic_load(&link->out->head);
    link->known_tail = atomic_load(&link->out->tail);
    link->tail = atomic_load(&link->in->head);
    atomic_store(&link->in->tail, link->tail);
    atomic_store(&link->in->asleep, 0);
    /* an earlier process at this end may have cleared `asleep`, and was killed before it wrote */
    write_wake(link);
    return link;
}

void memory_link_close(struct memory_link *link)
{
    if (!link)
        return;
    if (link->shared != MAP_FAILED)
        munmap(link->shared, sizeof *link->shared);
    const int fds[] = {link->wake_fd, link->peer_fd, link->fd};
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(link);
}

/* Receiving */

/* Return the next record with a frame, or NULL. A position behind fillers counts as the same. */
static const struct record *next_frame(const struct memory_link *link, uint64_t *position)
{
    uint64_t head = atomic_load_explicit(&link->in->head, memory_order_acquire);
    while (*position != head) {
        const struct record *record = record_at(link->in, *position);
        if (record->length != FILLER)
            return record;
        *position += record->next;
    }
    return NULL;
}

bool memory_link_peek(const struct memory_link *link, uint64_t *stamp_ns)
{
    uint64_t position = link->tail;
    const struct record *record = next_frame(link, &position);
    *stamp_ns = record ? record->stamp_ns : UINT64_MAX;
    return record;
}

uint32_t memory_link_receive(struct memory_link *link, uint8_t *room)
{
    const struct record *record = next_frame(link, &link->tail);
    uint32_t length = record->length;
    memcpy(room, record + 1, length);
    memory_link_discard(link);
    return length;
}

void memory_link_discard(struct memory_link *link)
{
    const struct record *record = next_frame(link, &link->tail);
    link->tail += record->next;
    atomic_store_explicit(&link->in->tail, link->tail, memory_order_release);
}

unsigned memory_link_unread(const struct memory_link *link)
{
    unsigned count = 0;
    const struct record *record;
    for (uint64_t at = link->tail; (record = next_frame(link, &at)); at += record->next)
        count++;
    return count;
}

/* Sending */

/* Return whether a process is at the other end. */
static bool has_peer(const struct memory_link *link)
{
    struct flock lock = lock_of(!link->end);
    return !fcntl(link->fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* Return whether `size` bytes are free. */
static bool has_room(struct memory_link *link, uint64_t size)
{
    if (link->head + size - link->known_tail > RING_SIZE)
        link->known_tail = atomic_load_explicit(&link->out->tail, memory_order_acquire);
    return link->head + size - link->known_tail <= RING_SIZE;
}

bool memory_link_send(struct memory_link *link, const uint8_t *frame, uint32_t length,
                      uint64_t stamp_ns)
{
    uint64_t size = (sizeof(struct record) + length + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    uint64_t rest = RING_SIZE - link->head % RING_SIZE, skipped = rest < size ? rest : 0;
    if (!has_room(link, skipped + size))
        return !has_peer(link);
    if (skipped)
        *record_at(link->out, link->head) = (struct record){FILLER, (uint32_t)skipped, 0};
    struct record *record = record_at(link->out, link->head + skipped);
    *record = (struct record){length, (uint32_t)size, stamp_ns};
    memcpy(record + 1, frame, length);
    link->head += skipped + size;
    atomic_store_explicit(&link->out->head, link->head, memory_order_release);
    return true;
}

/* The sender stores the head and then reads `asleep`. The receiver stores `asleep` and then reads
 * the head. The fences ensure that at least one of them sees the value of the other. */

void memory_link_wake(struct memory_link *link)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&link->out->asleep, memory_order_relaxed) &&
        atomic_exchange(&link->out->asleep, 0))
        write_wake(link);
}

int memory_link_fd(const struct memory_link *link)
{
    return link->wake_fd;
}

bool memory_link_sleep(struct memory_link *link)
{
    uint64_t stamp_ns;
    atomic_store_explicit(&link->in->asleep, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return !memory_link_peek(link, &stamp_ns);
}

void memory_link_awake(struct memory_link *link, bool is_readable)
{
    char bytes[64];
    atomic_store_explicit(&link->in->asleep, 0, memory_order_relaxed);
    if (is_readable) { /* a byte that is written later ends the next sleep, which does no harm */
        ssize_t length = read(link->wake_fd, bytes, sizeof bytes);
        (void)length;
    }
}
