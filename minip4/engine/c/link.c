/* The link: a transmitter of one rate, dice, and two delay lines. */
#include "link.h"

#include <stdbool.h>
#include <stdlib.h>

/* xoshiro256** 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021):
 * 256 bits of state, passes the known statistical tests, and costs about a nanosecond. */
struct dice {
    uint64_t state[4];
};

/* splitmix64 (Steele, Lea and Flood, 2014) spreads a seed over a dice's state. */
static uint64_t split_mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t roll(struct dice *dice)
{
    uint64_t *s = dice->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* True with the given probability, to within 2^-53. */
static bool happens(struct dice *dice, double probability)
{
    return (double)(roll(dice) >> 11) * 0x1p-53 < probability;
}

/* Frames in flight, ordered by time_ns. */
struct delay_line {
    struct packet *first, *last;
    uint64_t last_due_ns;
};

struct link {
    struct link_config config;
    struct link_counters counters;
    struct packet_pool *pool;
    link_deliver_fn deliver;
    link_drop_fn drop;
    void *user;
    struct dice loss, jitter, reorder; /* apart, so that jitter does not change which are lost */
    uint64_t free_at_ns;
    uint64_t wire_remainder; /* bits x 1e9 modulo the rate, carried over: the rate is exact */
    /* Held-back frames have a line of their own: all are held back for the same time, so each line
     * stays in order by itself, and no line needs sorting. */
    struct delay_line straight, held_back;
};

static void seed_dice(struct link *link)
{
    uint64_t state = link->config.seed;
    struct dice *dice[] = {&link->loss, &link->jitter, &link->reorder};
    for (int i = 0; i < 3; i++)
        for (int word = 0; word < 4; word++)
            dice[i]->state[word] = split_mix(&state);
}

struct link *link_create(const struct link_config *config, struct packet_pool *pool,
                         link_deliver_fn deliver, link_drop_fn drop, void *user)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->config = *config;
    link->pool = pool;
    link->deliver = deliver;
    link->drop = drop;
    link->user = user;
    seed_dice(link);
    return link;
}

static void empty(struct delay_line *line, struct packet_pool *pool)
{
    while (line->first) {
        struct packet *packet = line->first;
        line->first = packet->next;
        packet_give(pool, packet);
    }
}

void link_destroy(struct link *link)
{
    if (!link)
        return;
    empty(&link->straight, link->pool);
    empty(&link->held_back, link->pool);
    free(link);
}

void link_configure(struct link *link, const struct link_config *config)
{
    bool reseed = config->seed != link->config.seed;
    link->config = *config;
    link->wire_remainder = 0; /* it was in units of the old rate */
    if (reseed)
        seed_dice(link);
}

uint64_t link_free_at(const struct link *link)
{
    return link->free_at_ns;
}

const struct link_counters *link_counters(const struct link *link)
{
    return &link->counters;
}

/* Puts the frame on the wire; returns when its last bit has left. */
static uint64_t transmit(struct link *link, uint32_t length, uint64_t now_ns)
{
    uint64_t rate_bps = link->config.rate_bps;
    if (!rate_bps)
        return link->free_at_ns = now_ns;
    if (now_ns > link->free_at_ns)
        link->wire_remainder = 0; /* the wire was idle: nothing to carry over */
    uint64_t time = (uint64_t)length * 8 * 1000000000 + link->wire_remainder;
    link->wire_remainder = time % rate_bps;
    return link->free_at_ns = now_ns + time / rate_bps;
}

static uint64_t propagation_ns(struct link *link)
{
    uint64_t jitter_ns = link->config.jitter_ns;
    if (!jitter_ns)
        return link->config.delay_ns;
    uint64_t delay_ns = link->config.delay_ns + roll(&link->jitter) % (2 * jitter_ns + 1);
    return delay_ns > jitter_ns ? delay_ns - jitter_ns : 0;
}

static void append(struct delay_line *line, struct packet *packet, uint64_t due_ns)
{
    packet->time_ns = line->last_due_ns = due_ns;
    packet->next = NULL;
    if (line->first)
        line->last->next = packet;
    else
        line->first = packet;
    line->last = packet;
}

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void link_send(struct link *link, struct packet *packet, uint64_t now_ns)
{
    link->counters.sent_packets++;
    link->counters.sent_bytes += packet->length;
    uint64_t sent_ns = transmit(link, packet->length, now_ns);
    if (happens(&link->loss, link->config.loss)) {
        link->counters.lost_packets++;
        link->counters.lost_bytes += packet->length;
        if (link->drop)
            link->drop(link->user, now_ns, packet->data, packet->length);
        packet_give(link->pool, packet);
        return;
    }
    uint64_t due_ns = sent_ns + propagation_ns(link);
    if (happens(&link->reorder, link->config.reorder))
        append(&link->held_back, packet,
               max(due_ns + link->config.reorder_ns, link->held_back.last_due_ns));
    else
        append(&link->straight, packet, max(due_ns, link->straight.last_due_ns));
}

/* The line whose first frame is due first; NULL: nothing is in flight. */
static struct delay_line *next_line(struct link *link)
{
    struct packet *straight = link->straight.first, *held_back = link->held_back.first;
    if (!straight)
        return held_back ? &link->held_back : NULL;
    return held_back && held_back->time_ns < straight->time_ns ? &link->held_back : &link->straight;
}

uint64_t link_advance(struct link *link, uint64_t now_ns)
{
    struct delay_line *line;
    while ((line = next_line(link))) {
        struct packet *packet = line->first;
        uint64_t due_ns = packet->time_ns;
        if (due_ns > now_ns)
            return due_ns;
        line->first = packet->next; /* before deliver(), which may send on this link again */
        link->counters.delivered_packets++;
        link->counters.delivered_bytes += packet->length;
        link->deliver(link->user, packet, due_ns);
    }
    return UINT64_MAX;
}
