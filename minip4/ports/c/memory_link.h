/* A memory link: frames between two switches of one process. A frame costs no system call. Each end
 * belongs to the driver of one switch; the two drivers may run in different threads. */
#ifndef MINIP4_PORTS_MEMORY_LINK_H
#define MINIP4_PORTS_MEMORY_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

struct memory_link;
struct memory_end;

/* Create a link without drivers. Returns NULL if out of memory. */
struct memory_link *memory_link_create(void);
/* Free a link. Both ends must be closed. */
void memory_link_destroy(struct memory_link *link);

/* Open end 0 or 1 for a driver. Returns NULL with errno set on failure: EBUSY if it is open. */
struct memory_end *memory_end_open(struct memory_link *link, unsigned end);
/* Close the end. Its received frames are discarded. */
void memory_end_close(struct memory_end *end);
/* Notify `reader` when frames arrive, or no task if it is NULL. */
void memory_end_set_reader(struct memory_end *end, struct task *reader);

/* Get the time of the next received frame. Returns false if there is none. */
bool memory_end_peek(struct memory_end *end, uint64_t *stamp_ns);
/* Copy the next received frame to `room` (PACKET_MAX_FRAME bytes) and remove it. If `room` is NULL,
 * only remove it. Returns its length. memory_end_peek() must have returned true. */
uint32_t memory_end_receive(struct memory_end *end, uint8_t *room);
/* Return the number of received frames. */
unsigned memory_end_unread(struct memory_end *end);

/* Begin to send frames. All frames until memory_end_sent() arrive together. */
void memory_end_begin(struct memory_end *end);
/* Send a frame with its time. If the other end is closed, the frame is lost, as at an interface
 * without a reader. Returns false if too many frames wait. */
bool memory_end_send(struct memory_end *end, const uint8_t *frame, uint32_t length,
                     uint64_t stamp_ns);
void memory_end_sent(struct memory_end *end);

#endif
