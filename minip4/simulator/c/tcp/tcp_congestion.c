/* Congestion control: NewReno (RFC 5681), CUBIC (RFC 9438) with HyStart++ (RFC 9406), DCTCP (RFC 8257). */
#include "tcp.h"

enum {
    LEAST = 2,             /* segments */
    CUBIC_BETA = 717,      /* 0.7 in units of 1/1,024 */
    /* number of acknowledged segments per growth by one segment: maximum before a loss; minimum;
     * maximum where CUBIC is flat (in windows) */
    FIRST_EACH = 20, LEAST_EACH = 2, MOST_EACH = 100,
    LONGEST_MS = 1000000,
    SAMPLES = 8, ROUNDS = 5, GROWTH_DIVISOR = 4, /* constants of RFC 9406, 4.2 */
    DCTCP_GAIN_BITS = 4
};
#define CUBIC_C_INVERSE_MS 2500000000ull /* 1 / 0.4, in ms^3 per segment */
#define CUBIC_LOOK_NS 31250000ull        /* 1/32 of a second */
#define MIN_RTT_THRESHOLD_NS 4000000ull
#define MAX_RTT_THRESHOLD_NS 16000000ull

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

void congestion_begin(struct tcp *t)
{
    t->congestion.cwnd = INITIAL_WINDOW;
    t->congestion.ssthresh = UINT32_MAX;
    t->congestion.hystart.current_round_min_rtt_ns = t->congestion.hystart.last_round_min_rtt_ns = UINT64_MAX;
    t->congestion.hystart.round_end = t->out.next;
    /* RFC 8257, 4.1: initially, assume that all packets are marked */
    t->congestion.dctcp.alpha = 1 << 16;
    t->congestion.dctcp.round_end = t->out.next;
}

/* RFC 5681, 4.1: after an idle period, no acknowledgements pace the transmission. As in the Linux
 * kernel, the window is halved for each RTO of the idle period. Slow start then returns almost to
 * the previous window. */
void congestion_idle(struct tcp *t, uint64_t silent_ns)
{
    struct congestion *c = &t->congestion;
    uint32_t restart_window = least(c->cwnd, INITIAL_WINDOW);
    if (silent_ns <= t->rto_ns)
        return;
    c->ssthresh = most(c->ssthresh, c->cwnd / 2 + c->cwnd / 4);
    for (; silent_ns > t->rto_ns && c->cwnd > restart_window; silent_ns -= t->rto_ns)
        c->cwnd /= 2;
    c->cwnd = most(c->cwnd, restart_window);
    c->cubic.epoch_ns = 0; /* RFC 9438, 5.8: the epoch does not include idle time */
}

uint32_t congestion_reduced(struct tcp *t, bool is_marked)
{
    struct congestion *c = &t->congestion;
    uint32_t reduced = c->cwnd / 2;
    if (c->kind == TCP_CUBIC) {
        struct cubic *cubic = &c->cubic;
        /* condition of fast convergence (RFC 9438, 4.7) */
        bool is_smaller = c->cwnd < cubic->w_max;
        uint64_t share = is_smaller ? (1024 + CUBIC_BETA) / 2 : 1024;
        cubic->w_max = (uint32_t)(c->cwnd * share >> 10);
        cubic->epoch_ns = 0;
        reduced = (uint32_t)((uint64_t)c->cwnd * CUBIC_BETA >> 10);
    } else if (c->kind == TCP_DCTCP && is_marked) {
        reduced = c->cwnd - (uint32_t)((uint64_t)c->cwnd * c->dctcp.alpha >> 17);
    }
    c->counted = 0;
    return most(reduced, LEAST);
}

void congestion_timed_out(struct tcp *t)
{
    t->congestion.cubic = (struct cubic){0}; /* RFC 9438, 4.8: a timeout starts a new epoch */
}

/* --- slow start ------------------------------------------------------------------------------- */

static void end_slow_start(struct congestion *c)
{
    c->ssthresh = c->cwnd;
    c->hystart.css_rounds = 0;
}

static void begin_round(struct tcp *t)
{
    struct hystart *h = &t->congestion.hystart;
    h->last_round_min_rtt_ns = h->current_round_min_rtt_ns;
    h->current_round_min_rtt_ns = UINT64_MAX;
    h->rtt_sample_count = 0;
    h->round_end = t->out.next;
    if (h->css_rounds && ++h->css_rounds > ROUNDS)
        end_slow_start(&t->congestion);
}

void congestion_sample(struct tcp *t, uint64_t rtt_ns)
{
    struct congestion *c = &t->congestion;
    struct hystart *h = &c->hystart;
    if (c->kind != TCP_CUBIC || c->cwnd >= c->ssthresh)
        return;
    if (t->out.una >= h->round_end)
        begin_round(t);
    h->current_round_min_rtt_ns = rtt_ns < h->current_round_min_rtt_ns ? rtt_ns : h->current_round_min_rtt_ns;
    if (++h->rtt_sample_count < SAMPLES || h->last_round_min_rtt_ns == UINT64_MAX)
        return;
    uint64_t threshold_ns = h->last_round_min_rtt_ns / 8;
    threshold_ns = threshold_ns < MIN_RTT_THRESHOLD_NS   ? MIN_RTT_THRESHOLD_NS
                   : threshold_ns > MAX_RTT_THRESHOLD_NS ? MAX_RTT_THRESHOLD_NS
                                                         : threshold_ns;
    if (!h->css_rounds && h->current_round_min_rtt_ns >= h->last_round_min_rtt_ns + threshold_ns) {
        h->css_baseline_min_rtt_ns = h->current_round_min_rtt_ns;
        h->css_rounds = 1;
    } else if (h->css_rounds && h->current_round_min_rtt_ns < h->css_baseline_min_rtt_ns) {
        h->css_rounds = 0; /* another flow has caused the queue */
    }
}

/* Grow the window by one segment per `each` acknowledged segments. Segments that were counted with
 * a larger `each` yield at most one step. */
static void grow_by(struct congestion *c, uint32_t segments, uint32_t each)
{
    if (c->counted >= each) {
        c->counted = 0;
        c->cwnd++;
    }
    c->counted += segments;
    c->cwnd += c->counted / each;
    c->counted %= each;
}

/* Grow the window in slow start. Returns the number of segments left when slow start ends. */
static uint32_t grow_slowly(struct congestion *c, uint32_t segments)
{
    if (c->hystart.css_rounds) {
        grow_by(c, segments, GROWTH_DIVISOR);
        c->cwnd = least(c->cwnd, c->ssthresh);
        return 0;
    }
    uint32_t more = least(segments, c->ssthresh - c->cwnd);
    c->cwnd += more;
    return segments - more;
}

/* --- congestion avoidance --------------------------------------------------------------------- */

static uint32_t cube_root(uint64_t value)
{
    uint32_t root = 0;
    /* the cube root of a number below 2^64 has at most 22 bits */
    for (int bit = 21; bit >= 0; bit--) {
        uint64_t tried = root | 1u << bit;
        if ((unsigned __int128)tried * tried * tried <= value)
            root = (uint32_t)tried;
    }
    return root;
}

static void begin_epoch(struct tcp *t)
{
    struct congestion *c = &t->congestion;
    struct cubic *cubic = &c->cubic;
    cubic->epoch_ns = t->host->partition->now_ns;
    cubic->origin = most(cubic->w_max, c->cwnd);
    cubic->k_ms = cube_root((cubic->origin - c->cwnd) * CUBIC_C_INVERSE_MS);
    cubic->w_est = c->cwnd;
    cubic->counted = 0;
    cubic->looked_at = 0;
}

/* Return W_cubic (RFC 9438, 4.2) in segments. */
static uint32_t cubic_window(const struct cubic *cubic, uint64_t since_ms)
{
    since_ms = since_ms < LONGEST_MS ? since_ms : LONGEST_MS;
    bool is_before = since_ms < cubic->k_ms;
    uint64_t apart = is_before ? cubic->k_ms - since_ms : since_ms - cubic->k_ms;
    uint32_t offset = (uint32_t)(apart * apart * apart / CUBIC_C_INVERSE_MS);
    return is_before ? cubic->origin - least(offset, cubic->origin) : cubic->origin + offset;
}

/* Return the number of acknowledged segments per growth by one segment. As in Linux, the window
 * follows the larger of W_cubic and W_est, the window that Reno would have. */
static uint32_t cubic_each(const struct tcp *t)
{
    const struct congestion *c = &t->congestion;
    const struct cubic *cubic = &c->cubic;
    uint64_t ahead_ns = t->host->partition->now_ns - cubic->epoch_ns + t->min_rtt_ns;
    uint32_t target = cubic_window(cubic, ahead_ns / 1000000);
    uint32_t each = target > c->cwnd ? c->cwnd / (target - c->cwnd) : MOST_EACH * c->cwnd;
    if (!cubic->w_max) /* no loss yet */
        each = least(each, FIRST_EACH);
    if (cubic->w_est > c->cwnd)
        each = least(each, c->cwnd / (cubic->w_est - c->cwnd));
    return most(each, LEAST_EACH);
}

static void grow_cubic(struct tcp *t, uint32_t segments)
{
    struct congestion *c = &t->congestion;
    struct cubic *cubic = &c->cubic;
    uint64_t now_ns = t->host->partition->now_ns;
    if (!cubic->epoch_ns)
        begin_epoch(t);
    cubic->counted += segments;
    if (cubic->looked_at != c->cwnd || now_ns - cubic->looked_ns > CUBIC_LOOK_NS) {
        cubic->looked_ns = now_ns;
        cubic->looked_at = c->cwnd;
        uint32_t each = c->cwnd * 15 / 8; /* 1 / alpha windows (RFC 9438, 4.3) */
        cubic->w_est += cubic->counted / each;
        cubic->counted %= each;
        cubic->each = cubic_each(t);
    }
    grow_by(c, segments, cubic->each);
}

void congestion_grow(struct tcp *t, uint32_t segments)
{
    struct congestion *c = &t->congestion;
    if (c->cwnd < c->ssthresh)
        segments = grow_slowly(c, segments);
    if (!segments)
        return;
    if (c->kind == TCP_CUBIC)
        grow_cubic(t, segments);
    else
        grow_by(c, segments, c->cwnd);
}

/* --- marks ------------------------------------------------------------------------------------ */

void congestion_marks(struct tcp *t, uint64_t bytes, bool is_echoed)
{
    struct dctcp *d = &t->congestion.dctcp;
    d->acked += bytes;
    d->marked += is_echoed ? bytes : 0;
    if (t->out.una < d->round_end)
        return;
    uint64_t m = d->acked ? (d->marked << 16) / d->acked : 0; /* M of RFC 8257, 3.3 */
    d->alpha = (uint32_t)(d->alpha - (d->alpha >> DCTCP_GAIN_BITS) + (m >> DCTCP_GAIN_BITS));
    d->acked = d->marked = 0;
    d->round_end = t->out.next;
}
