/* An engine without P4, for tests of the driver alone. Frames from port 1 leave by port 2, and
 * frames from port 2 by port 1. Port 3 and the CPU port (320) are such a pair, too. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "engine.h"

enum { CPU_PORT = 320, BEHIND_LINK = 2 };

struct engine {
    struct engine_driver driver;
    struct packet_pool *pool;
    struct link *link; /* link of port 2 */
    pthread_mutex_t lock;
    uint64_t work_ns; /* processing time of each frame */
};

static void deliver(void *user, struct packet *packet, uint64_t now_ns)
{
    struct engine *engine = user;
    engine->driver.transmit(engine->driver.user, BEHIND_LINK, packet, now_ns);
}

static void drop(void *user, uint64_t now_ns, const uint8_t *frame, uint32_t length)
{
    struct engine *engine = user;
    engine->driver.link_drop(engine->driver.user, BEHIND_LINK, now_ns, frame, length);
}

struct engine *engine_create(const struct engine_driver *driver, uint64_t seed)
{
    (void)driver;
    struct engine *engine = calloc(1, sizeof *engine);
    const struct link_config perfect = {.seed = seed};
    engine->pool = packet_pool_create(0);
    engine->link = link_create(&perfect, engine->pool, deliver, drop, engine);
    pthread_mutex_init(&engine->lock, NULL);
    return engine;
}

void engine_destroy(struct engine *engine)
{
    link_destroy(engine->link);
    packet_pool_destroy(engine->pool);
    free(engine);
}

void engine_set_driver(struct engine *engine, const struct engine_driver *driver)
{
    engine->driver = *driver;
}

void engine_set_port(struct engine *engine, uint16_t port, bool up)
{
    (void)engine, (void)port, (void)up;
}

struct packet_pool *engine_pool(struct engine *engine)
{
    return engine->pool;
}

bool engine_set_link(struct engine *engine, uint16_t port, const struct link_config *config)
{
    (void)port;
    link_configure(engine->link, config);
    return true;
}

void engine_set_work(struct engine *engine, uint64_t work_ns)
{
    engine->work_ns = work_ns;
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void work(uint64_t work_ns)
{
    for (uint64_t end_ns = clock_ns() + work_ns; clock_ns() < end_ns;)
        ;
}

void engine_receive(struct engine *engine, uint16_t port, struct packet *packet,
                    uint64_t arrived_ns, uint64_t now_ns)
{
    struct engine_driver *driver = &engine->driver;
    work(engine->work_ns);
    uint16_t out = port == 1 ? 2 : port == 2 ? 1 : port == 3 ? CPU_PORT : 3;
    if (driver->tap) {
        driver->tap(driver->user, TAP_IN, port, packet, arrived_ns);
        driver->tap(driver->user, TAP_OUT, out, packet, now_ns);
    }
    if (out == BEHIND_LINK)
        link_send(engine->link, packet, now_ns);
    else
        driver->transmit(driver->user, out, packet, now_ns);
}

uint64_t engine_advance(struct engine *engine, uint64_t now_ns)
{
    return link_advance(engine->link, now_ns);
}

void engine_lock(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
}

void engine_lock_dataplane(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
}

void engine_unlock(struct engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
}

void engine_unlock_dataplane(struct engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
}
