/* A memory link: frames between two switch processes, in a file that both processes map. It has one
 * ring per direction, with one writer and one reader. A frame costs no system call, unless the
 * reader sleeps. Not thread-safe: each end belongs to the thread of one driver. */
#ifndef MINIP4_PORTS_MEMORY_LINK_H
#define MINIP4_PORTS_MEMORY_LINK_H

#include <stdbool.h>
#include <stdint.h>

struct memory_link;

/* Open end 0 or 1 of the link in this file; the file is created if necessary. Frames that were sent
 * to an earlier process at this end are discarded. Returns NULL with errno set on failure: EBUSY if
 * this end is open already. */
struct memory_link *memory_link_open(const char *path, unsigned end);
void memory_link_close(struct memory_link *link);

/* Get the time of the next received frame. Returns false if there is none. */
bool memory_link_peek(const struct memory_link *link, uint64_t *stamp_ns);
/* Copy the next received frame to `room` (PACKET_MAX_FRAME bytes), and remove it from the ring.
 * Returns its length. memory_link_peek() must have returned true. */
uint32_t memory_link_receive(struct memory_link *link, uint8_t *room);
/* Remove the next received frame. memory_link_peek() must have returned true. */
void memory_link_discard(struct memory_link *link);
/* Return the number of received frames in the ring. */
unsigned memory_link_unread(const struct memory_link *link);

/* Send a frame with its time. If no process is at the other end, the frame is lost, as at an
 * interface without a reader. Returns false if the ring is full. */
bool memory_link_send(struct memory_link *link, const uint8_t *frame, uint32_t length,
                      uint64_t stamp_ns);
/* Wake the reader if it sleeps; call this after the last frame of a batch. */
void memory_link_wake(struct memory_link *link);

/* Return a descriptor for ppoll(). It becomes readable when the other end wakes this one. */
int memory_link_fd(const struct memory_link *link);
/* Announce that this end will sleep. Returns false if a frame has arrived. */
bool memory_link_sleep(struct memory_link *link);
/* End the sleep. `is_readable` says whether the descriptor is readable. */
void memory_link_awake(struct memory_link *link, bool is_readable);

#endif
