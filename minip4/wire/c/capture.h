/* Captures: pcap files with nanosecond times (CLOCK_MONOTONIC) and the first bytes of frames. */
#ifndef MINIP4_CAPTURE_H
#define MINIP4_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

enum {
    CAPTURE_SNAPLEN = 128,      /* enough for headers and for the data that experiments read behind them */
    CAPTURE_MAX_SNAPLEN = 65535 /* whole frames */
};

/* All captures of a process; a separate thread writes them to disk. */
struct capture_set;
/* One file. */
struct capture;

/* NULL when memory or threads are short. */
struct capture_set *capture_set_create(void);
/* Creates the file and writes its header; NULL: see errno. It is closed with the set. At most `snaplen` bytes of
 * each frame are written (1 to CAPTURE_MAX_SNAPLEN). */
struct capture *capture_open(struct capture_set *set, const char *path, uint32_t snaplen);
/* Appends a frame. Called by one thread per file, which waits only if the disk is slower than the frames. */
void capture_frame(struct capture *capture, uint64_t time_ns, const uint8_t *frame,
                   uint32_t length);
/* Passes the buffered data to the writer; same thread as capture_frame(). */
void capture_flush(struct capture_set *set);
/* Writes and closes all files. Returns 0; or -1, with the first error of any file as a text in `error`: that
 * file then lacks frames. */
int capture_set_close(struct capture_set *set, char *error, size_t error_size);

#endif
