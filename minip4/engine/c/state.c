/* State other than tables: registers, counters, meters, action profiles, value sets, pseudo-random
 * numbers. */
#include "state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine_internal.h"
#include "log.h"

const uint64_t no_register[256];

struct array *array_create(const struct array_spec *spec, uint32_t count, size_t cell)
{
    struct array *array = calloc(count + 1, sizeof *array);
    for (uint32_t i = 0; array && i < count; i++) {
        array[i].size = spec[i].size;
        array[i].words = calloc((size_t)spec[i].size * spec[i].limbs + 1, cell);
        if (!array[i].words) {
            array_destroy(array, i);
            return NULL;
        }
    }
    return array;
}

void array_destroy(struct array *array, uint32_t count)
{
    for (uint32_t i = 0; array && i < count; i++)
        free(array[i].words);
    free(array);
}

/* --- meters ---------------------------------------------------------------------------------- */

/* Refill a bucket. Tokens are computed for the time since the last update, because at a high rate
 * the number of tokens since time 0 would overflow a word. If the clock was set back or wrapped
 * around, the bucket is reset. */
static void refill(struct bucket *b, uint64_t now_us)
{
    double gained = b->fraction;
    if (now_us > b->filled_us)
        gained += (double)(now_us - b->filled_us) * b->rate_per_us;
    b->filled_us = now_us;
    if (gained >= (double)(b->burst - b->tokens)) {
        b->tokens = b->burst;
        b->fraction = 0;
        return;
    }
    b->tokens += (uint64_t)gained;
    b->fraction = gained - (double)(uint64_t)gained;
}

/* Charge a packet as simple_switch does. The peak rate is checked first. A packet above the peak
 * rate is not charged. `before` is the packet's colour before, which never gets better (TNA). */
static unsigned charge(struct meter *meter, uint64_t now_us, uint64_t amount, unsigned before)
{
    if (!meter->is_configured)
        return before;
    refill(&meter->peak, now_us);
    if (before == 2 || meter->peak.tokens < amount)
        return 2;
    meter->peak.tokens -= amount;
    refill(&meter->committed, now_us);
    if (before == 1 || meter->committed.tokens < amount)
        return 1;
    meter->committed.tokens -= amount;
    return 0;
}

unsigned meter_colour(struct meter *meter, uint64_t now_us, uint64_t amount, uint64_t bytes)
{
    return meter_colour_after(meter, now_us, amount, bytes, 0);
}

unsigned meter_colour_after(struct meter *meter, uint64_t now_us, uint64_t amount, uint64_t bytes,
                            unsigned before)
{
    unsigned colour = charge(meter, now_us, amount, before < COLOURS ? before : COLOURS - 1);
    meter->counts[colour].packets++;
    meter->counts[colour].bytes += bytes;
    return colour;
}

/* --- log_msg, assert and assume --------------------------------------------------------------- */

void program_log(const char *text, unsigned count, const uint64_t *values)
{
    unsigned used = 0;
    FILE *log = log_stream();
    flockfile(log);
    for (const char *at = text; *at; at++) {
        if (at[0] == '{' && at[1] == '}' && used < count) {
            fprintf(log, "%" PRIu64, values[used++]);
            at++;
        } else {
            fputc(*at, log);
        }
    }
    fputc('\n', log);
    funlockfile(log);
}

/* --- pseudo-random numbers: xoshiro256** seeded by splitmix64 (Blackman and Vigna, 2021) ------------  */

void random_seed(uint64_t state[4], uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        state[i] = z ^ z >> 31;
    }
}

/* Return a uniformly distributed number in low..high, including both ends. */
uint64_t random_between(uint64_t state[4], uint64_t low, uint64_t high)
{
    uint64_t number = rotate(state[1] * 5, 7) * 9, t = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= t;
    state[3] = rotate(state[3], 45);
    uint64_t span = high - low + 1;
    return span ? low + (uint64_t)((u128)number * span >> 64) : number;
}

/* --- action profiles ------------------------------------------------------------------------- */

struct profile *profile_create(const struct profile_spec *spec)
{
    struct profile *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->stride = spec->data_words + 1;
    p->capacity = spec->max_size;
    p->slots = calloc((size_t)p->capacity * p->stride + 1, sizeof *p->slots);
    p->in_use = calloc(p->capacity + 1u, sizeof *p->in_use);
    p->presence = calloc(p->capacity + 1u, sizeof *p->presence);
    if (!p->slots || !p->in_use || !p->presence) {
        profile_destroy(p);
        return NULL;
    }
    return p;
}

void profile_destroy(struct profile *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; i < p->group_count; i++)
        free(p->groups[i].choice.members);
    free(p->groups);
    free(p->slots);
    free(p->in_use);
    free(p->presence);
    free(p);
}

/* --- parser value sets ----------------------------------------------------------------------- */

bool value_set_contains(const struct value_set *set, const uint64_t *key, const uint64_t *mask)
{
    for (uint32_t i = 0; i < set->values.count; i++) {
        const uint64_t *value = set->values.words + (size_t)i * set->words;
        uint64_t difference = 0;
        for (uint32_t w = 0; w < set->words; w++)
            difference |= (value[w] ^ key[w]) & (mask ? mask[w] : UINT64_MAX);
        if (!difference)
            return true;
    }
    return false;
}
