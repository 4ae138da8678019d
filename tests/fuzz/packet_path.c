/* The packet path for a fuzzer. Each input is a sequence of steps for a new engine.
 *
 * A step is a header of four bytes (port, time step, length of the frame in big endian) and the
 * frame. fill_engine() adds entries, groups, sessions, links and queues; recorder.py writes it. */
#include <stdio.h>
#include <stdlib.h>

#include "control.h"

enum {
    HEAD = 4,
    MAX_STEPS = 32,
    MAX_DRAIN = 16, /* otherwise, a program that clones or recirculates might never end */
    PORTS = 8 /* ports 0 to 7 are up; other values of a step's port are ports that are down */
};

void fill_engine(struct engine *e);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

static void take_all(struct engine *e)
{
    static uint8_t frame[PACKET_ROOM + PACKET_MAX_FRAME];
    uint16_t port;
    int64_t length;
    while ((length = engine_take(e, &port, frame, sizeof frame)) >= 0)
        if (port >= ENGINE_DROP_PORT || length > (int64_t)sizeof frame)
            fail("a frame left by no port, or is longer than its buffer");
    struct digest_sample digest;
    while (engine_digests_take(e, 1, &digest))
        if (digest.words > DIGEST_MAX_WORDS)
            fail("a digest has more words than there are");
}

static void check_books(struct engine *e)
{
    struct engine_counters c;
    engine_counters(e, &c);
    uint64_t drops = c.ingress_drops + c.egress_drops + c.queue_drops + c.no_port_drops +
                     c.memory_drops;
    if (c.received + c.replicas != c.transmitted + drops + c.in_queues)
        fail("packets are not accounted for");
}

/* 0, or from 1 ns to 17 s. So queues and links are sometimes empty, in use, or full. */
static uint64_t step_ns(uint8_t byte)
{
    return byte & 7 ? UINT64_C(1) << (byte >> 3) % 35 : 0;
}

/* A fault for the test of the fuzzer: a read beyond the end of some inputs. */
#ifdef PLANTED_FAULT
static void planted_fault(const uint8_t *frame, uint32_t length, size_t left)
{
    static volatile uint8_t read;
    if (length && frame[0] >= 0xf0 && length == left)
        read = frame[length];
    (void)read;
}
#else
static void planted_fault(const uint8_t *frame, uint32_t length, size_t left)
{
    (void)frame, (void)length, (void)left;
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct engine *e = engine_create(NULL, 1);
    if (!e)
        fail("no memory");
    engine_collect(e, PORTS);
    fill_engine(e);
    uint64_t now_ns = 1000000000;
    for (int step = 0; step < MAX_STEPS && size >= HEAD; step++) {
        uint32_t length = (uint32_t)input[2] << 8 | input[3];
        now_ns += step_ns(input[1]);
        uint16_t port = input[0] % (PORTS + 2);
        input += HEAD;
        size -= HEAD;
        length = length < size ? length : (uint32_t)size;
        planted_fault(input, length, size);
        engine_inject(e, port, input, length, now_ns);
        input += length;
        size -= length;
        take_all(e);
    }
    for (int i = 0; i < MAX_DRAIN && now_ns != UINT64_MAX; i++) {
        now_ns = engine_advance(e, now_ns);
        take_all(e);
    }
    check_books(e);
    engine_destroy(e);
    return 0;
}
