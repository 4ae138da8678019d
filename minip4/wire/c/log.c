#include "log.h"

static _Thread_local FILE *stream_of_thread; /* NULL: stderr */

void log_to(FILE *stream)
{
    stream_of_thread = stream;
}

FILE *log_stream(void)
{
    return stream_of_thread ? stream_of_thread : stderr;
}
