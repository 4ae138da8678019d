/* The link: a transmitter with a rate, pseudo-random generators, and two delay lines. */
#include "link.h"

#include "memory.h"

/* xoshiro256** 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021):
 * 256 bits of state, passes the known statistical tests, and costs about a nanosecond. */
struct rng {
    uint64_t state[4];
};

/* splitmix64 (Steele, Lea and Flood, 2014) spreads a seed over the state of a generator. */
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

static uint64_t next_random(struct rng *rng)
{
    uint64_t *s = rng->state;
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

/* Return true with the given probability (error at most 2^-53). */
static bool happens(struct rng *rng, double probability)
{
    return (double)(next_random(rng) >> 11) * 0x1p-53 < probability;
}

/* Frames in flight, ordered by time_ns. */
struct delay_line {
    struct packet *first, *last;
};

struct link_rest {
    struct packet_pool *pool;
    link_deliver_fn deliver;
    link_drop_fn drop;
    void *user;
    /* Frames held back have a separate line. All are held back for the same time, so each line
     * stays in order and needs no sorting. */
    struct delay_line straight, held_back;
    uint64_t last_held_ns;             /* like last_due_ns, for frames held back */
    /* separate generators, so that jitter does not change which frames are lost */
    struct rng loss, jitter, reorder;
    struct link_config config;
    struct link_counters counters; /* some fields are updated only in link_counters() */
};

static void seed_rngs(struct link *link)
{
    uint64_t state = link->rest->config.seed;
    struct rng *rngs[] = {&link->rest->loss, &link->rest->jitter, &link->rest->reorder};
    for (int i = 0; i < 3; i++)
        for (int word = 0; word < 4; word++)
            rngs[i]->state[word] = split_mix(&state);
}

static void set_config(struct link *link, const struct link_config *config)
{
    link->rest->config = *config;
    link->rate_bps = config->rate_bps;
    link->delay_ns = config->delay_ns;
    link->wire_remainder = 0; /* the remainder is in units of the old rate */
    link->is_random = config->loss > 0 || config->jitter_ns || config->reorder > 0;
}

bool link_open(struct link *link, const struct link_config *config, struct packet_pool *pool,
               link_deliver_fn deliver, link_drop_fn drop, void *user)
{
    struct link_rest *rest = memory_take(sizeof *rest);
    if (!rest)
        return false;
    *link = (struct link){.rest = rest};
    *rest = (struct link_rest){.pool = pool, .deliver = deliver, .drop = drop, .user = user};
    set_config(link, config);
    seed_rngs(link);
    return true;
}

static void empty(struct delay_line *line, struct packet_pool *pool)
{
    while (line->first) {
        struct packet *packet = line->first;
        line->first = packet->next;
        packet_give(pool, packet);
    }
}

void link_close(struct link *link)
{
    empty(&link->rest->straight, link->rest->pool);
    empty(&link->rest->held_back, link->rest->pool);
    memory_give(link->rest, sizeof *link->rest);
    *link = (struct link){0};
}

struct link *link_create(const struct link_config *config, struct packet_pool *pool,
                         link_deliver_fn deliver, link_drop_fn drop, void *user)
{
    struct link *link = memory_take(sizeof *link);
    if (link && !link_open(link, config, pool, deliver, drop, user)) {
        memory_give(link, sizeof *link);
        return NULL;
    }
    return link;
}

void link_destroy(struct link *link)
{
    if (!link)
        return;
    link_close(link);
    memory_give(link, sizeof *link);
}

void link_configure(struct link *link, const struct link_config *config)
{
    bool reseed = config->seed != link->rest->config.seed;
    set_config(link, config);
    if (reseed)
        seed_rngs(link);
}

uint64_t link_free_at(const struct link *link)
{
    return link->free_at_ns;
}

uint64_t link_lookahead_ns(const struct link *link)
{
    uint64_t jitter_ns = link->rest->config.jitter_ns;
    return link->delay_ns > jitter_ns ? link->delay_ns - jitter_ns : 0;
}

void link_move_pool(struct link *link, struct packet_pool *pool)
{
    link->rest->pool = pool;
}

const struct link_counters *link_counters(struct link *link)
{
    struct link_counters *counters = &link->rest->counters;
    counters->sent_packets = link->sent_packets;
    counters->sent_bytes = link->sent_bytes;
    if (link->is_passed) {
        counters->delivered_packets = counters->sent_packets - counters->lost_packets;
        counters->delivered_bytes = counters->sent_bytes - counters->lost_bytes;
    }
    return counters;
}

/* Transmit a frame. Returns the time when its last bit is sent. */
static uint64_t transmit(struct link *link, uint32_t length, uint64_t now_ns)
{
    uint64_t rate_bps = link->rate_bps;
    link->sent_packets++;
    link->sent_bytes += length;
    if (!rate_bps)
        return link->free_at_ns = now_ns;
    if (now_ns > link->free_at_ns)
        /* the transmitter was idle, so there is no remainder to carry over */
        link->wire_remainder = 0;
    uint64_t time = (uint64_t)length * 8 * 1000000000 + link->wire_remainder;
    link->wire_remainder = time % rate_bps;
    return link->free_at_ns = now_ns + time / rate_bps;
}

static uint64_t propagation_ns(struct link *link)
{
    uint64_t jitter_ns = link->rest->config.jitter_ns;
    if (!jitter_ns)
        return link->delay_ns;
    uint64_t delay_ns = link->delay_ns + next_random(&link->rest->jitter) % (2 * jitter_ns + 1);
    return delay_ns > jitter_ns ? delay_ns - jitter_ns : 0;
}

static void lose(struct link *link, struct packet *packet, uint64_t now_ns)
{
    link->rest->counters.lost_packets++;
    link->rest->counters.lost_bytes += packet->length;
    if (link->rest->drop)
        link->rest->drop(link->rest->user, now_ns, packet->data, packet->length);
    packet_give(link->rest->pool, packet);
}

/* Send a frame. Returns false if the frame was lost and freed. Otherwise, sets the due time in
 * packet->time_ns and whether the frame is held back. */
static bool pass(struct link *link, struct packet *packet, uint64_t now_ns, bool *is_held_back)
{
    uint64_t due_ns = transmit(link, packet->length, now_ns) + link->delay_ns;
    *is_held_back = false;
    if (link->is_random) {
        if (happens(&link->rest->loss, link->rest->config.loss)) {
            lose(link, packet, now_ns);
            return false;
        }
        due_ns = due_ns - link->delay_ns + propagation_ns(link);
        *is_held_back = happens(&link->rest->reorder, link->rest->config.reorder);
        if (*is_held_back)
            due_ns += link->rest->config.reorder_ns;
    }
    uint64_t *last_ns = *is_held_back ? &link->rest->last_held_ns : &link->last_due_ns;
    packet->time_ns = *last_ns = due_ns > *last_ns ? due_ns : *last_ns;
    return true;
}

bool link_pass(struct link *link, struct packet *packet, uint64_t now_ns)
{
    bool is_held_back;
    /* an unconditional store would delay link_pass(), which reads the same word */
    if (!link->is_passed)
        link->is_passed = true;
    return pass(link, packet, now_ns, &is_held_back);
}

void link_send(struct link *link, struct packet *packet, uint64_t now_ns)
{
    bool is_held_back;
    if (!pass(link, packet, now_ns, &is_held_back))
        return;
    struct delay_line *line = is_held_back ? &link->rest->held_back : &link->rest->straight;
    packet->next = NULL;
    if (line->first)
        line->last->next = packet;
    else
        line->first = packet;
    line->last = packet;
}

/* Return the line whose first frame is due first, or NULL if no frame is in flight. */
static struct delay_line *next_line(struct link *link)
{
    struct packet *straight = link->rest->straight.first, *held_back = link->rest->held_back.first;
    if (!straight)
        return held_back ? &link->rest->held_back : NULL;
    return held_back && held_back->time_ns < straight->time_ns ? &link->rest->held_back : &link->rest->straight;
}

uint64_t link_advance(struct link *link, uint64_t now_ns)
{
    struct delay_line *line;
    while ((line = next_line(link))) {
        struct packet *packet = line->first;
        uint64_t due_ns = packet->time_ns;
        if (due_ns > now_ns)
            return due_ns;
        /* removed before deliver(), which may send on this link again */
        line->first = packet->next;
        link->rest->counters.delivered_packets++;
        link->rest->counters.delivered_bytes += packet->length;
        link->rest->deliver(link->rest->user, packet, due_ns);
    }
    return UINT64_MAX;
}
