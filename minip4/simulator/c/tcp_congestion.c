/* Congestion control: NewReno (RFC 5681), CUBIC (RFC 9438) with HyStart++ (RFC 9406), DCTCP (RFC 8257). */
#include "tcp.h"

#define ONE (1ull << WINDOW_BITS)
#define LEAST (2 * ONE)

enum {
    CUBIC_BETA = 45875,  /* 0.7, of 65,536 */
    CUBIC_C_INVERSE_MS = 2500000000u, /* 1 / 0.4, in ms^3 a segment */
    CUBIC_ALPHA = 34695, /* 3 (1 - beta) / (1 + beta), of 65,536 */
    LONGEST_MS = 1000000,
    SAMPLES = 8, ROUNDS = 5, GROWTH_DIVISOR = 4, /* RFC 9406, 4.2 */
    DCTCP_GAIN_BITS = 4
};
#define MIN_RTT_THRESHOLD_NS 4000000ull
#define MAX_RTT_THRESHOLD_NS 16000000ull

static uint64_t part(uint64_t value, uint64_t share)
{
    return (uint64_t)((unsigned __int128)value * share >> 16);
}

void congestion_begin(struct tcp *t)
{
    t->congestion.window = INITIAL_WINDOW * ONE;
    t->congestion.threshold = UINT64_MAX;
    t->congestion.hystart.rtt_ns = t->congestion.hystart.last_rtt_ns = UINT64_MAX;
    t->congestion.hystart.round_end = t->out.next;
    t->congestion.dctcp.share = 1 << 16; /* RFC 8257, 4.1: as a first guess, all are marked */
    t->congestion.dctcp.round_end = t->out.next;
}

uint64_t congestion_reduced(struct tcp *t, bool is_marked)
{
    struct congestion *c = &t->congestion;
    uint64_t reduced = c->window / 2;
    if (c->kind == TCP_CUBIC) {
        struct cubic *cubic = &c->cubic;
        bool is_smaller = c->window < cubic->largest; /* fast convergence: 4.7 */
        cubic->largest = is_smaller ? part(c->window, (65536 + CUBIC_BETA) / 2) : c->window;
        cubic->before = c->window;
        cubic->epoch_ns = 0;
        reduced = part(c->window, CUBIC_BETA);
    } else if (c->kind == TCP_DCTCP && is_marked) {
        reduced = c->window - part(c->window, c->dctcp.share) / 2;
    }
    return reduced < LEAST ? LEAST : reduced;
}

/* --- slow start ------------------------------------------------------------------------------- */

static void end_slow_start(struct congestion *c)
{
    c->threshold = c->window;
    c->hystart.rounds = 0;
}

static void begin_round(struct tcp *t)
{
    struct hystart *h = &t->congestion.hystart;
    h->last_rtt_ns = h->rtt_ns;
    h->rtt_ns = UINT64_MAX;
    h->samples = 0;
    h->round_end = t->out.next;
    if (h->rounds && ++h->rounds > ROUNDS)
        end_slow_start(&t->congestion);
}

void congestion_sample(struct tcp *t, uint64_t rtt_ns)
{
    struct congestion *c = &t->congestion;
    struct hystart *h = &c->hystart;
    if (c->kind != TCP_CUBIC || c->window >= c->threshold)
        return;
    if (t->out.una >= h->round_end)
        begin_round(t);
    h->rtt_ns = rtt_ns < h->rtt_ns ? rtt_ns : h->rtt_ns;
    if (++h->samples < SAMPLES || h->last_rtt_ns == UINT64_MAX)
        return;
    uint64_t threshold_ns = h->last_rtt_ns / 8;
    threshold_ns = threshold_ns < MIN_RTT_THRESHOLD_NS   ? MIN_RTT_THRESHOLD_NS
                   : threshold_ns > MAX_RTT_THRESHOLD_NS ? MAX_RTT_THRESHOLD_NS
                                                         : threshold_ns;
    if (!h->rounds && h->rtt_ns >= h->last_rtt_ns + threshold_ns) {
        h->baseline_ns = h->rtt_ns;
        h->rounds = 1;
    } else if (h->rounds && h->rtt_ns < h->baseline_ns) {
        h->rounds = 0; /* it was no queue of ours */
    }
}

/* Returns how many segments are left when slow start ends. */
static uint32_t grow_slowly(struct congestion *c, uint32_t segments)
{
    uint64_t more = segments * ONE / (c->hystart.rounds ? GROWTH_DIVISOR : 1);
    if (c->window + more < c->threshold) {
        c->window += more;
        return 0;
    }
    uint64_t over = (c->window + more - c->threshold) / ONE;
    c->window = c->threshold;
    return (uint32_t)over;
}

/* --- congestion avoidance --------------------------------------------------------------------- */

static uint64_t cube_root(uint64_t value)
{
    uint64_t root = 0;
    for (int bit = 20; bit >= 0; bit--) { /* 2^63 has one of 21 bits */
        uint64_t tried = root | 1ull << bit;
        if ((unsigned __int128)tried * tried * tried <= value)
            root = tried;
    }
    return root;
}

static void begin_epoch(struct tcp *t)
{
    struct congestion *c = &t->congestion;
    struct cubic *cubic = &c->cubic;
    cubic->epoch_ns = t->host->partition->now_ns;
    cubic->estimate = c->window;
    cubic->k_ms = 0;
    if (c->window < cubic->largest) {
        unsigned __int128 cubed =
            (unsigned __int128)(cubic->largest - c->window) * CUBIC_C_INVERSE_MS >> WINDOW_BITS;
        cubic->k_ms = cube_root(cubed > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)cubed);
    } else {
        cubic->largest = c->window;
    }
}

/* W_cubic of RFC 9438, 4.2. */
static uint64_t cubic_window(const struct cubic *cubic, uint64_t since_ms)
{
    since_ms = since_ms < LONGEST_MS ? since_ms : LONGEST_MS;
    bool is_before = since_ms < cubic->k_ms;
    uint64_t apart = is_before ? cubic->k_ms - since_ms : since_ms - cubic->k_ms;
    unsigned __int128 cubed = (unsigned __int128)apart * apart * apart;
    uint64_t offset = (uint64_t)((cubed << WINDOW_BITS) / CUBIC_C_INVERSE_MS);
    if (is_before)
        return offset < cubic->largest ? cubic->largest - offset : 0;
    return cubic->largest + offset;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void grow_cubic(struct tcp *t, uint32_t segments)
{
    struct congestion *c = &t->congestion;
    struct cubic *cubic = &c->cubic;
    if (!cubic->epoch_ns)
        begin_epoch(t);
    uint64_t since_ms = (t->host->partition->now_ns - cubic->epoch_ns) / 1000000;
    uint64_t alpha = cubic->estimate < cubic->before ? CUBIC_ALPHA : ONE;
    cubic->estimate += segments * alpha * ONE / c->window;
    if (cubic_window(cubic, since_ms) < cubic->estimate) { /* as Reno would be: 4.3 */
        c->window = cubic->estimate > c->window ? cubic->estimate : c->window;
        return;
    }
    uint64_t target = cubic_window(cubic, since_ms + t->srtt_ns / 1000000);
    target = least(target, c->window + c->window / 2);
    if (target > c->window)
        c->window += least(segments * (target - c->window) / (c->window >> WINDOW_BITS),
                           target - c->window);
}

void congestion_grow(struct tcp *t, uint32_t segments)
{
    struct congestion *c = &t->congestion;
    if (c->window < c->threshold)
        segments = grow_slowly(c, segments);
    if (!segments)
        return;
    if (c->kind == TCP_CUBIC)
        grow_cubic(t, segments);
    else
        c->window += segments * ONE / (c->window >> WINDOW_BITS);
}

/* --- marks ------------------------------------------------------------------------------------ */

void congestion_marks(struct tcp *t, uint64_t bytes, bool is_echoed)
{
    struct dctcp *d = &t->congestion.dctcp;
    d->acked += bytes;
    d->marked += is_echoed ? bytes : 0;
    if (t->out.una < d->round_end)
        return;
    uint64_t share = d->acked ? (d->marked << 16) / d->acked : 0;
    d->share = (uint32_t)(d->share - (d->share >> DCTCP_GAIN_BITS) + (share >> DCTCP_GAIN_BITS));
    d->acked = d->marked = 0;
    d->round_end = t->out.next;
}
