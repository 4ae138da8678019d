/* One TCP stream. `tcp` accepts one connection on port 5001, and prints the number of received
 * bytes and the duration in ns. `tcp ADDRESS SECONDS` connects to this port and sends at the
 * maximum rate. */
#define _GNU_SOURCE
#include "common.h"

#include <netinet/in.h>
#include <unistd.h>

enum { PORT = 5001, CHUNK = 128 * 1024 };

static char chunk[CHUNK];

static struct sockaddr_in address(const char *text)
{
    struct sockaddr_in made = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    inet_pton(AF_INET, text, &made.sin_addr);
    return made;
}

static void serve(int listening)
{
    struct sockaddr_in any = address("0.0.0.0");
    if (bind(listening, (struct sockaddr *)&any, sizeof any) || listen(listening, 1))
        fail("listen");
    puts("ready");
    fflush(stdout);
    int fd = accept(listening, NULL, NULL);
    uint64_t bytes = 0, start_ns = clock_ns(), last_ns = start_ns;
    for (ssize_t size; (size = read(fd, chunk, CHUNK)) > 0; last_ns = clock_ns())
        bytes += (uint64_t)size;
    printf("%llu %llu\n", (unsigned long long)bytes, (unsigned long long)(last_ns - start_ns));
}

static void send_for(int fd, const char *to, double seconds)
{
    struct sockaddr_in server = address(to);
    if (connect(fd, (struct sockaddr *)&server, sizeof server))
        fail("connect");
    uint64_t end_ns = clock_ns() + (uint64_t)(seconds * 1e9);
    while (clock_ns() < end_ns)
        if (write(fd, chunk, CHUNK) < 0)
            fail("write");
}

int main(int argc, char **argv)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (argc == 1)
        serve(fd);
    else if (argc == 3)
        send_for(fd, argv[1], atof(argv[2]));
    else
        return 2;
    return 0;
}
