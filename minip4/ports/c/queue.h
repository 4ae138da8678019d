/* A bounded queue of frames between the data plane and the controller's thread; thread-safe. */
#ifndef MINIP4_PORTS_QUEUE_H
#define MINIP4_PORTS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame_queue;

/* NULL: errno says why. */
struct frame_queue *frame_queue_create(void);
void frame_queue_destroy(struct frame_queue *queue);

/* Readable after a frame is added to the empty queue, until frame_queue_acknowledge(): the reader acknowledges,
 * then takes all frames. */
int frame_queue_fd(const struct frame_queue *queue);
void frame_queue_acknowledge(struct frame_queue *queue);

/* False: the queue is full and the frame is counted as dropped. */
bool frame_queue_put(struct frame_queue *queue, const uint8_t *frame, uint32_t length);
/* Copies the first frame and returns its length; 0 when there is none. `room` holds any frame. */
uint32_t frame_queue_take(struct frame_queue *queue, uint8_t *room);
uint64_t frame_queue_drops(struct frame_queue *queue);

#endif
