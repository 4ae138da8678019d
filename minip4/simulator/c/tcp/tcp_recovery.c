/* Processing of acknowledgements and timeouts: RTT samples (RFC 6298), loss detection (RACK and
 * tail loss probes, RFC 8985), and the window during recovery (RFC 6675, RFC 6937, RFC 3168). */
#include "tcp.h"

#define NEVER UINT64_MAX
/* RFC 8985, 7.2: the acknowledgement of a single segment may be delayed */
#define PROBE_ALONE_NS 200000000ull

/* The information in one acknowledgement. */
struct news {
    uint32_t delivered;  /* number of segments acknowledged or sacked for the first time */
    uint64_t fack;       /* end of the highest data delivered before, as an offset */
    uint64_t bytes;      /* acknowledged */
    /* RTT of the first acknowledged segment that was sent only once; 0 means no sample */
    uint64_t rtt_ns;
    /* a retransmission was acknowledged, together with later data */
    bool has_waited;
    bool is_duplicate;   /* the receiver reported a duplicate (RFC 2883) */
    bool has_lost;       /* new losses were detected */
    /* an acknowledged segment was sent before the timeout and not retransmitted since */
    bool is_of_original;
};

/* --- the scoreboard --------------------------------------------------------------------------- */

static void no_longer_lost(struct sending *out, struct segment *segment)
{
    out->lost -= segment->is_lost;
    out->again -= segment->is_again;
    segment->is_lost = segment->is_again = false;
}

/* Record that a segment was delivered (RFC 8985, 6.2, steps 1 to 3). */
static void deliver(struct tcp *t, struct segment *segment, struct news *news)
{
    struct rack *rack = &t->rack;
    uint64_t rtt_ns = t->host->partition->now_ns - segment->sent_ns, end = segment->begin + segment->length;
    rtt_ns += rtt_ns == 0; /* on wires without delay the RTT is 0, which would mean no sample */
    news->delivered++;
    if (!segment->was_again) {
        news->rtt_ns = news->rtt_ns ? news->rtt_ns : rtt_ns;
        t->min_rtt_ns = t->min_rtt_ns && t->min_rtt_ns < rtt_ns ? t->min_rtt_ns : rtt_ns;
        rack->reordering_seen |= end < news->fack;
    }
    rack->fack = end > rack->fack ? end : rack->fack;
    if (segment->was_again && (rtt_ns < t->min_rtt_ns || news->is_of_original))
        return; /* the acknowledgement refers to an earlier copy */
    if (segment->transmission > rack->transmission) {
        rack->transmission = segment->transmission;
        rack->rtt_ns = rtt_ns;
    }
}

/* Return the number of the first segment that begins at or after an offset. */
static uint64_t number_of(const struct sending *out, uint64_t offset)
{
    uint64_t low = out->first, high = out->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (segment_at(out, middle)->begin < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_block(struct tcp *t, const struct range *block, struct news *news)
{
    struct sending *out = &t->out;
    for (uint64_t i = number_of(out, block->begin); i < out->end; i++) {
        struct segment *segment = segment_at(out, i);
        if (segment->begin + segment->length > block->end)
            break;
        if (segment->is_sacked)
            continue;
        deliver(t, segment, news);
        no_longer_lost(out, segment);
        segment->is_sacked = true;
        out->sacked++;
        out->highest_sacked = i + 1 > out->highest_sacked ? i + 1 : out->highest_sacked;
    }
}

/* Record that all data before `una` were delivered. */
static void advance(struct tcp *t, uint64_t una, struct news *news)
{
    struct sending *out = &t->out;
    news->bytes = una - out->una;
    out->una = una;
    while (out->first < out->end) {
        struct segment *segment = segment_at(out, out->first);
        if (segment->begin + segment->length > una)
            break;
        if (segment->is_sacked)
            out->sacked--;
        else
            deliver(t, segment, news);
        news->has_waited |= segment->was_again;
        no_longer_lost(out, segment);
        out->first++;
    }
    struct segment *head = segment_at(out, out->first);
    /* a part of the first segment was delivered */
    if (out->first < out->end && head->begin < una) {
        head->length -= (uint32_t)(una - head->begin);
        head->begin = una;
    }
    out->look_at = out->look_at > out->first ? out->look_at : out->first;
}

static void mark_lost(struct sending *out, uint64_t number)
{
    struct segment *segment = segment_at(out, number);
    out->lost += !segment->is_lost;
    out->again -= segment->is_again;
    segment->is_lost = true;
    segment->is_again = false;
    out->look_at = number < out->look_at ? number : out->look_at;
}

/* Return the reordering window: the time by which a segment may arrive after later ones (RFC 8985,
 * 6.2, step 4). */
static uint64_t reo_wnd_ns(const struct tcp *t)
{
    if (!t->rack.reordering_seen && (t->repair.state >= TCP_RECOVERS || t->out.sacked >= DUPLICATES))
        return 0;
    uint64_t quarter_ns = t->min_rtt_ns / 4;
    return quarter_ns < t->srtt_ns ? quarter_ns : t->srtt_ns;
}

/* Detect losses (RFC 8985, 6.2, step 5). Returns true if more segments are lost. */
static bool look_for_losses(struct tcp *t)
{
    struct sending *out = &t->out;
    const struct rack *rack = &t->rack;
    uint64_t wait_ns = 0, within_ns = rack->rtt_ns + reo_wnd_ns(t);
    bool has_lost = false;
    tcp_set(t, TIMER_REORDERING, NEVER);
    for (uint64_t i = out->first; out->sacked && i < out->highest_sacked; i++) {
        const struct segment *segment = segment_at(out, i);
        if (segment->is_sacked || (segment->is_lost && !segment->is_again) ||
            segment->transmission > rack->transmission)
            continue;
        uint64_t until_ns = segment->sent_ns + within_ns;
        if (until_ns <= t->host->partition->now_ns) {
            mark_lost(out, i);
            has_lost = true;
        } else if (until_ns - t->host->partition->now_ns > wait_ns) {
            wait_ns = until_ns - t->host->partition->now_ns;
        }
    }
    if (wait_ns)
        tcp_set(t, TIMER_REORDERING, t->host->partition->now_ns + wait_ns);
    return has_lost;
}

/* Detect losses without SACK: by three duplicate acknowledgements (RFC 5681, 3.2), and in recovery
 * by each partial acknowledgement (RFC 6582, 3.2). Returns true if more segments are lost. */
static bool count_duplicates(struct tcp *t, const struct acknowledgement *ack, struct news *news)
{
    struct sending *out = &t->out;
    enum tcp_recovery state = t->repair.state;
    if (t->has_sack || out->first == out->end || state == TCP_LOSS) {
        out->duplicates = 0;
        return false;
    }
    if (ack->is_duplicate && out->duplicates + 1 < out->end - out->first) {
        out->duplicates++; /* a segment after the gap has arrived */
        news->delivered++;
        if (out->duplicates < DUPLICATES || state == TCP_RECOVERS)
            return false;
    } else if (news->bytes && state == TCP_RECOVERS && out->una < t->repair.recovery_point) {
        uint32_t behind = news->delivered - (news->delivered > 0);
        out->duplicates -= behind < out->duplicates ? behind : out->duplicates;
        if (out->duplicates >= out->end - out->first)
            out->duplicates = (uint32_t)(out->end - out->first) - 1;
    } else {
        out->duplicates = news->bytes ? 0 : out->duplicates;
        return false;
    }
    mark_lost(out, out->first);
    return true;
}

/* --- timers ----------------------------------------------------------------------------------- */

static void set_rto(struct tcp *t)
{
    uint64_t margin_ns = 4 * t->rttvar_ns;
    t->rto_ns = t->srtt_ns + (margin_ns > MIN_RTO_NS ? margin_ns : MIN_RTO_NS);
    t->repair.backoff = 0;
}

static void take_rtt(struct tcp *t, uint64_t rtt_ns)
{
    uint64_t apart_ns = t->srtt_ns > rtt_ns ? t->srtt_ns - rtt_ns : rtt_ns - t->srtt_ns;
    t->rttvar_ns = t->srtt_ns ? t->rttvar_ns - t->rttvar_ns / 4 + apart_ns / 4 : rtt_ns / 2;
    t->srtt_ns = t->srtt_ns ? t->srtt_ns - t->srtt_ns / 8 + rtt_ns / 8 : rtt_ns;
    set_rto(t);
}

/* Return an RTT sample for data sent more than once; only timestamps distinguish the copies (RFC
 * 7323, 4.1). */
static uint64_t echoed_rtt_ns(const struct tcp *t, const struct acknowledgement *ack)
{
    int32_t ms = (int32_t)(tcp_timestamp(t) - ack->echoed);
    return (ms < 1 ? 1ull : (uint64_t)ms) * 1000000;
}

void tcp_arm(struct tcp *t)
{
    const struct sending *out = &t->out;
    uint64_t due_ns = NEVER, probe_ns = NEVER;
    if (out->first < out->end) {
        uint64_t rto_ns = t->rto_ns << (t->repair.backoff < 10 ? t->repair.backoff : 10);
        due_ns = t->timed_ns + (rto_ns < MAX_RTO_NS ? rto_ns : MAX_RTO_NS);
        if (t->state == TCP_ESTABLISHED && t->repair.state <= TCP_REDUCES && !out->sacked &&
            !t->repair.tlp_end_seq && t->srtt_ns)
            probe_ns = t->host->partition->now_ns + 2 * t->srtt_ns +
                       (out->end - out->first == 1 ? PROBE_ALONE_NS : 0);
    }
    /* RFC 8985, 7.2: the probe replaces the timeout if it is due earlier */
    bool has_probe = probe_ns != NEVER;
    tcp_set(t, TIMER_RETRANSMIT, has_probe ? NEVER : due_ns);
    tcp_set(t, TIMER_PROBE, has_probe && due_ns < probe_ns ? due_ns : probe_ns);
}

void tcp_on_probe(struct tcp *t)
{
    struct sending *out = &t->out;
    struct repair *r = &t->repair;
    r->tlp_is_retrans = !tcp_send_new(t);
    if (r->tlp_is_retrans && !segment_at(out, out->end - 1)->is_again)
        tcp_send_again(t, segment_at(out, out->end - 1));
    r->tlp_end_seq = out->next;
    t->timed_ns = t->host->partition->now_ns;
    tcp_arm(t);
}

static void begin_repair(struct tcp *t, enum tcp_recovery state, bool is_marked)
{
    struct repair *r = &t->repair;
    t->congestion.ssthresh = congestion_reduced(t, is_marked);
    r->state = state;
    r->recovery_point = t->out.next;
    r->prr_delivered = r->prr_out = 0;
    r->recover_fs = t->out.end - t->out.first;
    r->tlp_end_seq = 0;
    t->wants_cwr = t->has_ecn;
}

/* Mark segments as lost after a timeout (RFC 8985, 6.3). */
static void lose_all(struct tcp *t)
{
    struct sending *out = &t->out;
    /* RFC 2018, 8: if a receiver does not acknowledge sacked data, it has discarded them. */
    bool has_reneged = segment_at(out, out->first)->is_sacked;
    uint64_t within_ns = t->rack.rtt_ns + reo_wnd_ns(t);
    for (uint64_t i = out->first; i < out->end; i++) {
        struct segment *segment = segment_at(out, i);
        if (has_reneged)
            segment->is_sacked = false;
        if (!segment->is_sacked &&
            (i == out->first || segment->sent_ns + within_ns <= t->host->partition->now_ns))
            mark_lost(out, i);
    }
    out->sacked = has_reneged ? 0 : out->sacked;
    out->duplicates = 0;
}

static void open_eifel(struct tcp *t)
{
    t->repair.eifel = (struct eifel){
        .is_open = t->has_timestamps, .timestamp = tcp_timestamp(t),
        .flight = (uint32_t)(t->out.end - t->out.first), .srtt_ns = t->srtt_ns,
        .rttvar_ns = t->rttvar_ns, .congestion = t->congestion,
    };
}

void tcp_on_timeout(struct tcp *t)
{
    struct sending *out = &t->out;
    struct repair *r = &t->repair;
    bool is_opening = t->state != TCP_ESTABLISHED;
    uint64_t still_ns = t->host->partition->now_ns - t->progress_ns;
    if (is_opening ? r->timeouts == SYN_RETRIES : still_ns >= STALL_NS) {
        tcp_fail(t);
        return;
    }
    t->timed_ns = t->host->partition->now_ns;
    r->backoff++;
    if (r->state <= TCP_REDUCES && !is_opening)
        open_eifel(t);
    if (r->timeouts++ == 0 && r->state != TCP_RECOVERS && !is_opening)
        begin_repair(t, TCP_LOSS, false);
    lose_all(t);
    r->state = TCP_LOSS;
    r->recovery_point = out->next;
    r->tlp_end_seq = 0;
    t->congestion.cwnd = tcp_pipe(out) + 1;
    congestion_timed_out(t);
    tcp_send_again(t, segment_at(out, out->first));
}

/* --- acknowledgements ------------------------------------------------------------------------- */

/* Evaluate a tail loss probe (RFC 8985, 7.4). Returns true if the probe has repaired a loss. */
static bool end_probe(struct tcp *t, const struct news *news)
{
    struct repair *r = &t->repair;
    if (!r->tlp_end_seq || t->out.una < r->tlp_end_seq)
        return false;
    /* The receiver reports a duplicate after it has acknowledged the first copy. So a loss is known
     * only when later data are acknowledged. */
    bool is_known = !r->tlp_is_retrans || news->is_duplicate || t->out.una > r->tlp_end_seq;
    if (is_known)
        r->tlp_end_seq = 0;
    return is_known && r->tlp_is_retrans && !news->is_duplicate;
}

/* Undo a spurious timeout (RFC 4015), because no segment was lost. The window becomes the data in
 * flight plus the data that this acknowledgement newly delivered (at most the initial window). The
 * threshold is restored, and the RTO takes this long delay into account. */
static void undo_timeout(struct tcp *t, const struct news *news, uint64_t rtt_ns)
{
    struct sending *out = &t->out;
    struct congestion *c = &t->congestion;
    const struct eifel *before = &t->repair.eifel;
    for (uint64_t i = out->first; i < out->end; i++)
        no_longer_lost(out, segment_at(out, i));
    uint32_t ssthresh = before->congestion.ssthresh, acked = news->delivered;
    *c = before->congestion;
    c->ssthresh = before->flight > ssthresh ? before->flight : ssthresh;
    c->cwnd = tcp_pipe(out) + (acked < INITIAL_WINDOW ? acked : INITIAL_WINDOW);
    t->wants_cwr = false;
    t->repair.state = TCP_OPEN;
    t->srtt_ns = before->srtt_ns > rtt_ns ? before->srtt_ns : rtt_ns;
    t->rttvar_ns = before->rttvar_ns > rtt_ns / 2 ? before->rttvar_ns : rtt_ns / 2;
    set_rto(t);
}

/* Return whether a timeout was spurious: the first acknowledgement after the timeout refers to the
 * original segment, not to the retransmission (RFC 3522). */
static bool was_spurious(struct tcp *t, const struct acknowledgement *ack)
{
    struct eifel *eifel = &t->repair.eifel;
    bool is_open = eifel->is_open;
    eifel->is_open = false;
    return is_open && ack->has_timestamp && (int32_t)(ack->echoed - eifel->timestamp) < 0;
}

/* Reduce the window during recovery (RFC 6937). */
static void reduce(struct tcp *t, const struct news *news, bool is_first)
{
    struct repair *r = &t->repair;
    uint64_t pipe = tcp_pipe(&t->out), ssthresh = t->congestion.ssthresh;
    uint64_t allowed;
    r->prr_delivered += news->delivered;
    if (pipe > ssthresh) {
        allowed = (r->prr_delivered * ssthresh + r->recover_fs - 1) / r->recover_fs;
        allowed = allowed > r->prr_out ? allowed - r->prr_out : 0;
    } else {
        uint64_t over = r->prr_delivered > r->prr_out ? r->prr_delivered - r->prr_out : 0;
        allowed = over > news->delivered ? over : news->delivered;
        allowed += news->bytes && !news->has_lost;
        allowed = allowed < ssthresh - pipe ? allowed : ssthresh - pipe;
    }
    /* Allow the first retransmission. Also allow one segment if no segment is in flight, because no
     * acknowledgement would open the window then. */
    allowed = (is_first || !pipe) && !allowed ? 1 : allowed;
    t->congestion.cwnd = (uint32_t)(pipe + allowed);
}

static void grow(struct tcp *t, const struct news *news)
{
    struct congestion *c = &t->congestion;
    bool is_slow_start = c->cwnd < c->ssthresh;
    if (!c->is_limited && !(is_slow_start && c->cwnd < 2 * (uint64_t)c->most)) {
        c->cubic.epoch_ns = 0; /* RFC 9438, 5.8: time in recovery does not count */
        return;
    }
    congestion_grow(t, news->delivered);
}

/* Adapt the window to the information in an acknowledgement. */
static void respond(struct tcp *t, const struct news *news, bool is_marked, bool is_repaired)
{
    struct repair *r = &t->repair;
    bool is_first = false;
    /* The segment with CWR starts at `recovery_point`. Marks that arrive before it is acknowledged
     * belong to the previous reduction. */
    uint64_t end = r->recovery_point + (r->state == TCP_REDUCES);
    if (r->state != TCP_OPEN && t->out.una >= end) {
        if (r->state != TCP_LOSS)
            t->congestion.cwnd = t->congestion.ssthresh;
        r->state = TCP_OPEN;
    }
    if (t->out.lost && r->state == TCP_REDUCES) {
        r->state = TCP_RECOVERS; /* the window is already reduced */
        r->recovery_point = t->out.next;
        is_first = true;
    } else if (t->out.lost && r->state == TCP_OPEN) {
        begin_repair(t, TCP_RECOVERS, false);
        is_first = true;
    } else if ((is_marked || is_repaired) && r->state == TCP_OPEN) {
        /* RFC 8257, 3.5: a loss takes precedence over marks */
        begin_repair(t, TCP_REDUCES, !is_repaired);
    }
    if (r->state == TCP_REDUCES || r->state == TCP_RECOVERS)
        reduce(t, news, is_first);
    else if (news->bytes)
        grow(t, news);
}

void tcp_take_ack(struct tcp *t, const struct acknowledgement *ack)
{
    struct news news = {.fack = t->rack.fack};
    const struct range *blocks = ack->blocks;
    uint32_t count = ack->count;
    if (count && (blocks[0].end <= ack->una || (count > 1 && blocks[0].begin >= blocks[1].begin &&
                                                blocks[0].end <= blocks[1].end))) {
        news.is_duplicate = true;
        blocks++;
        count--;
    }
    for (uint32_t i = 0; i < count; i++)
        take_block(t, &blocks[i], &news);
    if (ack->una > t->out.una) {
        news.is_of_original = was_spurious(t, ack);
        advance(t, ack->una, &news);
        t->repair.timeouts = 0;
        t->progress_ns = t->timed_ns = t->host->partition->now_ns;
    }
    if (news.is_of_original) {
        undo_timeout(t, &news, echoed_rtt_ns(t, ack));
    } else if (news.rtt_ns && !news.has_waited) {
        take_rtt(t, news.rtt_ns);
        congestion_sample(t, news.rtt_ns);
    } else if (news.bytes && t->repair.backoff && ack->has_timestamp) {
        take_rtt(t, echoed_rtt_ns(t, ack));
    }
    congestion_marks(t, news.bytes, ack->is_echoed);
    news.has_lost = count_duplicates(t, ack, &news);
    if (news.delivered)
        news.has_lost |= look_for_losses(t);
    bool is_repaired = end_probe(t, &news);
    if (!news.is_of_original)
        respond(t, &news, ack->is_echoed && t->has_ecn, is_repaired);
    tcp_arm(t);
}

void tcp_on_reordering(struct tcp *t)
{
    struct news news = {.has_lost = look_for_losses(t)};
    if (news.has_lost)
        respond(t, &news, false, false);
    tcp_send(t);
}
