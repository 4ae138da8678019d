/* Captures. Each file has two buffers: the data plane fills one while the writer saves the
 * other. */
#define _GNU_SOURCE
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_SIZE = 256 * 1024, PATH_SIZE = 512 };

/* Format: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap, file header, then records. */
struct file_header {
    uint32_t magic;
    uint16_t version_major, version_minor;
    uint32_t reserved[2];
    uint32_t snaplen;
    uint32_t link_type;
};

struct record_header {
    uint32_t seconds, nanoseconds;
    uint32_t captured_length, original_length;
};

_Static_assert(sizeof(struct record_header) + CAPTURE_MAX_SNAPLEN <= BUFFER_SIZE,
               "a frame fits into a buffer");

enum { MAGIC_NANOSECONDS = 0xa1b23c4d, LINKTYPE_ETHERNET = 1 };

struct capture {
    struct capture *next;
    struct capture_set *set;
    int fd;
    uint32_t snaplen;
    uint8_t *filling; /* used by the data plane, without the lock */
    size_t filled;
    /* used by the writer while to_save > 0; `filling` and `saving` are swapped only under the lock
     * of the set */
    uint8_t *saving;
    size_t to_save;
    int error; /* errno of the first failed write, after which nothing is written */
    char path[PATH_SIZE];
};

struct capture_set {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t writer;
    bool closing;
    struct capture *first;
};

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
    return 0;
}

/* Return a capture with a buffer to save, or NULL. Must be called with the lock held. */
static struct capture *waiting(struct capture_set *set)
{
    struct capture *capture = set->first;
    while (capture && !capture->to_save)
        capture = capture->next;
    return capture;
}

static void *write_captures(void *user)
{
    struct capture_set *set = user;
    pthread_mutex_lock(&set->lock);
    for (;;) {
        struct capture *capture = waiting(set);
        if (!capture) {
            if (set->closing)
                break;
            pthread_cond_wait(&set->work, &set->lock);
            continue;
        }
        pthread_mutex_unlock(&set->lock);
        if (!capture->error)
            capture->error = write_all(capture->fd, capture->saving, capture->to_save);
        pthread_mutex_lock(&set->lock);
        capture->to_save = 0;
        pthread_cond_broadcast(&set->done); /* the waiting threads may wait for different files */
    }
    pthread_mutex_unlock(&set->lock);
    return NULL;
}

struct capture_set *capture_set_create(void)
{
    struct capture_set *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    pthread_mutex_init(&set->lock, NULL);
    pthread_cond_init(&set->work, NULL);
    pthread_cond_init(&set->done, NULL);
    errno = pthread_create(&set->writer, NULL, write_captures, set);
    if (errno) {
        free(set);
        return NULL;
    }
#ifdef __linux__ /* on macOS, a thread can only name itself */
    pthread_setname_np(set->writer, "minip4-capture");
#endif
    return set;
}

static void capture_free(struct capture *capture)
{
    free(capture->filling);
    free(capture->saving);
    free(capture);
}

struct capture *capture_open(struct capture_set *set, const char *path, uint32_t snaplen)
{
    const struct file_header header = {
        .magic = MAGIC_NANOSECONDS,
        .version_major = 2,
        .version_minor = 4,
        .snaplen = snaplen,
        .link_type = LINKTYPE_ETHERNET,
    };
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return NULL;
    capture->set = set;
    capture->snaplen = snaplen;
    capture->filling = malloc(BUFFER_SIZE);
    capture->saving = malloc(BUFFER_SIZE);
    snprintf(capture->path, sizeof capture->path, "%s", path);
    if (!capture->filling || !capture->saving) {
        capture_free(capture);
        errno = ENOMEM;
        return NULL;
    }
    capture->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int error = capture->fd < 0 ? errno : write_all(capture->fd, (void *)&header, sizeof header);
    if (error) {
        if (capture->fd >= 0)
            close(capture->fd);
        capture_free(capture);
        errno = error;
        return NULL;
    }
    pthread_mutex_lock(&set->lock);
    capture->next = set->first;
    set->first = capture;
    pthread_mutex_unlock(&set->lock);
    return capture;
}

/* Swap the buffers. Must be called with the lock held, when the writer has no buffer to save. */
static void hand_over(struct capture *capture)
{
    uint8_t *saved = capture->saving;
    capture->saving = capture->filling;
    capture->to_save = capture->filled;
    capture->filling = saved;
    capture->filled = 0;
    pthread_cond_signal(&capture->set->work);
}

static void hand_over_waiting(struct capture *capture)
{
    struct capture_set *set = capture->set;
    pthread_mutex_lock(&set->lock);
    while (capture->to_save)
        pthread_cond_wait(&set->done, &set->lock);
    hand_over(capture);
    pthread_mutex_unlock(&set->lock);
}

void capture_frame(struct capture *capture, uint64_t time_ns, const uint8_t *frame,
                   uint32_t length)
{
    uint32_t captured = length < capture->snaplen ? length : capture->snaplen;
    struct record_header header = {
        .seconds = (uint32_t)(time_ns / 1000000000),
        .nanoseconds = (uint32_t)(time_ns % 1000000000),
        .captured_length = captured,
        .original_length = length,
    };
    if (capture->filled + sizeof header + captured > BUFFER_SIZE)
        hand_over_waiting(capture);
    uint8_t *record = capture->filling + capture->filled;
    memcpy(record, &header, sizeof header);
    memcpy(record + sizeof header, frame, captured);
    capture->filled += sizeof header + captured;
}

void capture_flush(struct capture_set *set)
{
    pthread_mutex_lock(&set->lock);
    for (struct capture *capture = set->first; capture; capture = capture->next)
        if (capture->filled && !capture->to_save)
            hand_over(capture);
    pthread_mutex_unlock(&set->lock);
}

int capture_set_close(struct capture_set *set, char *error, size_t error_size)
{
    for (struct capture *capture = set->first; capture; capture = capture->next)
        if (capture->filled)
            hand_over_waiting(capture);
    pthread_mutex_lock(&set->lock);
    set->closing = true;
    pthread_cond_signal(&set->work);
    pthread_mutex_unlock(&set->lock);
    pthread_join(set->writer, NULL);

    int result = 0;
    for (struct capture *capture = set->first, *next; capture; capture = next) {
        next = capture->next;
        if (close(capture->fd) && !capture->error)
            capture->error = errno;
        if (capture->error && !result) {
            result = -1;
            snprintf(error, error_size, "cannot write %s: %s", capture->path,
                     strerror(capture->error));
        }
        capture_free(capture);
    }
    pthread_cond_destroy(&set->work);
    pthread_cond_destroy(&set->done);
    pthread_mutex_destroy(&set->lock);
    free(set);
    return result;
}
