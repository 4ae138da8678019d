/* Captures: pcap files with nanosecond times (CLOCK_MONOTONIC) and the first bytes of frames. */
#ifndef MINIP4_CAPTURE_H
#define MINIP4_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

enum {
    /* bytes per frame; enough for headers and the data after them that experiments read */
    CAPTURE_SNAPLEN = 128,
    CAPTURE_MAX_SNAPLEN = 65535 /* bytes per frame; enough for whole frames */
};

/* All captures of a process; a separate thread writes them to disk. */
struct capture_set;
/* One capture file. */
struct capture;

/* Create an empty set. Returns NULL if out of memory, or if the thread cannot be created. */
struct capture_set *capture_set_create(void);
/* Create a file and write its header. Returns NULL with errno set on failure. The file is closed
 * with the set. Of each frame, at most `snaplen` bytes are written (1 to CAPTURE_MAX_SNAPLEN). */
struct capture *capture_open(struct capture_set *set, const char *path, uint32_t snaplen);
/* Append a frame. Only one thread may append to a file. The call waits only if the disk is slower
 * than the frames. */
void capture_frame(struct capture *capture, uint64_t time_ns, const uint8_t *frame,
                   uint32_t length);
/* Pass the buffered data to the writer; must be called by the thread that calls capture_frame(). */
void capture_flush(struct capture_set *set);
/* Write and close all files. Returns 0, or -1 with the text of the first error in `error`. The file
 * with this error lacks frames. */
int capture_set_close(struct capture_set *set, char *error, size_t error_size);

#endif
