/* A bounded queue of frames: a byte ring with the length of each frame before its data. */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { QUEUE_SIZE = 4 * 1024 * 1024 }; /* unused pages need no memory */

struct frame_queue {
    pthread_mutex_t lock;
    int event_fd;
    size_t start, used;
    uint64_t drops;
    uint8_t bytes[QUEUE_SIZE];
};

struct frame_queue *frame_queue_create(void)
{
    struct frame_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    pthread_mutex_init(&queue->lock, NULL);
    queue->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (queue->event_fd < 0) {
        free(queue);
        return NULL;
    }
    return queue;
}

void frame_queue_destroy(struct frame_queue *queue)
{
    if (!queue)
        return;
    close(queue->event_fd);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

int frame_queue_fd(const struct frame_queue *queue)
{
    return queue->event_fd;
}

void frame_queue_acknowledge(struct frame_queue *queue)
{
    eventfd_t count;
    eventfd_read(queue->event_fd, &count); /* fails if there was no signal, which is harmless */
}

static void copy_in(struct frame_queue *queue, const void *from, size_t size)
{
    const uint8_t *bytes = from;
    for (size_t i = 0; i < size; i++)
        queue->bytes[(queue->start + queue->used + i) % QUEUE_SIZE] = bytes[i];
    queue->used += size;
}

static void copy_out(struct frame_queue *queue, void *to, size_t size)
{
    uint8_t *bytes = to;
    for (size_t i = 0; i < size; i++)
        bytes[i] = queue->bytes[(queue->start + i) % QUEUE_SIZE];
    queue->start = (queue->start + size) % QUEUE_SIZE;
    queue->used -= size;
}

bool frame_queue_put(struct frame_queue *queue, const uint8_t *frame, uint32_t length)
{
    pthread_mutex_lock(&queue->lock);
    bool was_empty = !queue->used;
    bool fits = queue->used + sizeof length + length <= QUEUE_SIZE;
    if (fits) {
        copy_in(queue, &length, sizeof length);
        copy_in(queue, frame, length);
    } else {
        queue->drops++;
    }
    pthread_mutex_unlock(&queue->lock);
    if (fits && was_empty)
        eventfd_write(queue->event_fd, 1);
    return fits;
}

uint32_t frame_queue_take(struct frame_queue *queue, uint8_t *room)
{
    uint32_t length = 0;
    pthread_mutex_lock(&queue->lock);
    if (queue->used) {
        copy_out(queue, &length, sizeof length);
        copy_out(queue, room, length);
    }
    pthread_mutex_unlock(&queue->lock);
    return length;
}

uint64_t frame_queue_drops(struct frame_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    uint64_t drops = queue->drops;
    pthread_mutex_unlock(&queue->lock);
    return drops;
}
