/* Two threads exchange frames over a memory link, and sleep whenever they have nothing to do. With
 * the argument "turns", each thread sends a frame only after it has received one. Each frame's
 * content follows from its number. Prints nothing if all frames arrive in order. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_link.h"
#include "packet.h"

enum { FRAMES = 30000, PATIENCE_MS = 60000 };

static const char *path;
static pthread_barrier_t both; /* waits until both ends are open */
static uint32_t ahead[2] = {FRAMES, FRAMES}; /* frames that an end sends ahead of those received */

static uint32_t length_of(uint32_t number)
{
    return 14 + number * 2654435761u % (PACKET_MAX_FRAME - 13);
}

static void fail(const char *what, uint32_t number)
{
    fprintf(stderr, "%s at frame %u\n", what, number);
    exit(1);
}

static void check(const uint8_t *frame, uint32_t length, uint64_t stamp_ns, uint32_t number)
{
    if (length != length_of(number) || stamp_ns != number)
        fail("wrong length or time", number);
    for (uint32_t i = 0; i < length; i += 97)
        if (frame[i] != (uint8_t)(number + i))
            fail("wrong content", number);
}

/* Send FRAMES frames, and receive as many from the other end. */
static void *exchange(void *user)
{
    const unsigned end = *(const unsigned *)user;
    struct memory_link *link = memory_link_open(path, end);
    static _Thread_local uint8_t frame[PACKET_MAX_FRAME], room[PACKET_MAX_FRAME];
    uint32_t sent = 0, received = 0;
    uint64_t stamp_ns;
    unsigned seed = end;
    if (!link)
        fail("cannot open the link", 0);
    pthread_barrier_wait(&both);
    while (sent < FRAMES || received < FRAMES) {
        bool has_worked = false;
        for (unsigned batch = 0; sent < FRAMES && sent < received + ahead[end] && batch < 64;
             batch++) {
            uint32_t length = length_of(sent);
            for (uint32_t i = 0; i < length; i += 97)
                frame[i] = (uint8_t)(sent + i);
            if (!memory_link_send(link, frame, length, sent))
                break;
            sent++;
            has_worked = true;
        }
        memory_link_wake(link);
        while (memory_link_peek(link, &stamp_ns)) {
            uint32_t length = memory_link_receive(link, room);
            check(room, length, stamp_ns, received++);
            has_worked = true;
        }
        if (has_worked || (sent < FRAMES && sent < received + ahead[end]))
            continue;
        /* The other end may send at any time before this thread sleeps. */
        for (volatile unsigned pause = rand_r(&seed) % 1000; pause; pause--)
            ;
        struct pollfd polled = {.fd = memory_link_fd(link), .events = POLLIN};
        if (memory_link_sleep(link) && received < FRAMES && !poll(&polled, 1, PATIENCE_MS))
            fail("not woken", received);
        memory_link_awake(link, polled.revents);
    }
    return link;
}

int main(int count, char **arguments)
{
    static unsigned ends[] = {0, 1};
    pthread_t threads[2];
    void *links[2];
    if (count != 3)
        return 2;
    path = arguments[1];
    if (!strcmp(arguments[2], "turns")) {
        ahead[0] = 1;
        ahead[1] = 0;
    }
    pthread_barrier_init(&both, NULL, 2);
    for (unsigned end = 0; end < 2; end++)
        pthread_create(&threads[end], NULL, exchange, &ends[end]);
    for (unsigned end = 0; end < 2; end++)
        pthread_join(threads[end], &links[end]);
    for (unsigned end = 0; end < 2; end++)
        memory_link_close(links[end]);
    return 0;
}
