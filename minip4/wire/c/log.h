/* The stream for messages of P4 programs (log_msg, assert, assume). Each thread has its own, because
 * a thread may run several switches in turn. */
#ifndef MINIP4_LOG_H
#define MINIP4_LOG_H

#include <stdio.h>

/* Write messages of this thread to `stream` from now on. */
void log_to(FILE *stream);
/* Return the stream of this thread; the default is stderr. */
FILE *log_stream(void);

#endif
