/* A bounded queue of frames between the data plane and the controller's thread; thread-safe. */
#ifndef MINIP4_PORTS_QUEUE_H
#define MINIP4_PORTS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame_queue;

/* Returns NULL with errno set on failure. */
struct frame_queue *frame_queue_create(void);
void frame_queue_destroy(struct frame_queue *queue);

/* The descriptor becomes readable when a frame is added to the empty queue, and stays readable
 * until frame_queue_acknowledge(). The reader acknowledges first, and then fetches all frames. */
int frame_queue_fd(const struct frame_queue *queue);
void frame_queue_acknowledge(struct frame_queue *queue);

/* Add a frame. Returns false if the queue is full; the frame then counts as dropped. */
bool frame_queue_put(struct frame_queue *queue, const uint8_t *frame, uint32_t length);
/* Copy the first frame. Returns its length, or 0 if the queue is empty. `room` must have space for
 * any frame. */
uint32_t frame_queue_take(struct frame_queue *queue, uint8_t *room);
uint64_t frame_queue_drops(struct frame_queue *queue);

#endif
