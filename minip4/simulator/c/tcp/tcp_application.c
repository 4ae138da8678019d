/* Applications that use TCP. The client writes, either continuously or in requests; the server
 * reads and responds. Client and server record their progress. */
#include "tcp.h"

enum {
    LEAST_BUFFER = 1 << 16, /* minimum number of bytes written ahead of acknowledgements */
    /* bytes per write of a flow with a rate, and writes per second; the same as in real time */
    MIN_CHUNK = 1448, MAX_CHUNK = 1 << 16, CHUNKS_PER_S = 1000
};

static void record(struct tcp *t)
{
    struct connection *c = t->connection;
    if (!virtual_room(&c->progress, c->result.progress_count, &c->progress_room,
                      sizeof *c->progress)) {
        t->host->partition->is_short = true;
        return;
    }
    c->progress[c->result.progress_count++] = (struct virtual_tcp_progress){
        .time_ns = t->host->partition->now_ns,
        .written = t->out.limit - 1,
        .acknowledged = t->out.una ? t->out.una - 1 : 0,
        .retransmitted = (uint32_t)t->retransmitted,
        .window = t->congestion.cwnd,
        .rtt_us = (uint32_t)(t->srtt_ns / 1000),
    };
    c->next_record_ns = t->host->partition->now_ns + RECORD_NS;
}

/* --- the client, which opens the connection --------------------------------------------------- */

static bool is_written(const struct tcp *t)
{
    const struct virtual_tcp_config *config = &t->connection->config;
    return config->bytes ? t->out.limit - 1 == config->bytes
                         : t->host->partition->now_ns - config->start_ns >= config->duration_ns;
}

/* Return the end of the off period, or now if there is no off period. */
static uint64_t awake_ns(const struct virtual_tcp_config *config, uint64_t now_ns)
{
    uint64_t cycle_ns = config->on_ns + config->off_ns;
    uint64_t since_ns = cycle_ns ? (now_ns - config->start_ns) % cycle_ns : 0;
    return since_ns < config->on_ns || !cycle_ns ? now_ns : now_ns - since_ns + cycle_ns;
}

/* Return when `bytes` are due at the rate; off periods do not count. */
static uint64_t rate_due_ns(const struct virtual_tcp_config *config, uint64_t bytes)
{
    uint64_t own_ns = (uint64_t)((double)bytes * 8e9 / config->rate_bps);
    uint64_t silences = config->on_ns ? own_ns / config->on_ns : 0;
    return config->start_ns + own_ns + silences * config->off_ns;
}

/* Write the data that are due and fit in the buffer. Returns the time of the next write, unless an
 * acknowledgement wakes the application earlier. */
static uint64_t write_more(struct tcp *t)
{
    const struct virtual_tcp_config *config = &t->connection->config;
    uint64_t written = t->out.limit - 1, now_ns = t->host->partition->now_ns;
    uint64_t room = 2ull * t->congestion.cwnd * t->out.mss, chunk = UINT64_MAX;
    uint64_t next_ns = config->bytes ? NEVER : config->start_ns + config->duration_ns;
    uint64_t due_ns = awake_ns(config, now_ns);
    room = (room > LEAST_BUFFER ? room : LEAST_BUFFER) + t->out.una - 1;
    if (due_ns > now_ns)
        return due_ns < next_ns ? due_ns : next_ns;
    if (config->rate_bps > 0) {
        due_ns = rate_due_ns(config, written);
        if (due_ns > now_ns)
            return due_ns < next_ns ? due_ns : next_ns;
        chunk = (uint64_t)(config->rate_bps / 8 / CHUNKS_PER_S);
        chunk = chunk < MIN_CHUNK ? MIN_CHUNK : chunk > MAX_CHUNK ? MAX_CHUNK : chunk;
    }
    if (room <= written)
        return next_ns;
    chunk = chunk < room - written ? chunk : room - written;
    if (config->bytes && chunk > config->bytes - written)
        chunk = config->bytes - written;
    t->out.limit += chunk;
    return config->rate_bps > 0 ? now_ns : next_ns;
}

/* Like write_more(), for requests that wait for responses. */
static uint64_t ask(struct tcp *t)
{
    struct connection *c = t->connection;
    uint64_t now_ns = t->host->partition->now_ns;
    if (c->asked > c->result.answers_count || now_ns < c->next_ask_ns)
        return c->asked > c->result.answers_count ? NEVER : c->next_ask_ns;
    if (!virtual_room(&c->answers, c->asked, &c->answers_room, sizeof *c->answers)) {
        t->host->partition->is_short = true;
        return NEVER;
    }
    c->answers[c->asked++].asked_ns = now_ns;
    t->out.limit += c->config.request_bytes;
    return NEVER;
}

/* After the last write, wait until all data are acknowledged and all responses have arrived, and
 * then report the end. */
static void finish(struct tcp *t)
{
    if (t->out.una < t->out.limit || t->connection->asked > t->connection->result.answers_count)
        return;
    record(t);
    t->connection->result.is_acknowledged = true;
    t->out.has_fin = true;
    t->out.limit++;
}

static void opener_goes_on(struct tcp *t)
{
    struct connection *c = t->connection;
    uint64_t (*go_on)(struct tcp *) = c->config.request_bytes ? ask : write_more;
    uint64_t next_ns = NEVER;
    if (t->state == TCP_CLOSED && !c->result.progress_count) {
        t->progress_ns = t->host->partition->now_ns;
        record(t);
        t->state = TCP_SYN_SENT;
        tcp_send_syn(t);
    }
    if (c->result.is_acknowledged || c->result.has_failed)
        return;
    if (t->host->partition->now_ns >= c->next_record_ns)
        record(t);
    while (t->state == TCP_ESTABLISHED && !is_written(t) &&
           (next_ns = go_on(t)) <= t->host->partition->now_ns)
        ;
    if (t->state == TCP_ESTABLISHED && is_written(t))
        finish(t);
    if (!c->result.is_acknowledged)
        tcp_set(t, TIMER_APPLICATION,
                next_ns < c->next_record_ns ? next_ns : c->next_record_ns);
}

/* Record that `received` bytes of responses have arrived in total. */
static void take_answers(struct connection *c, uint64_t received, uint64_t now_ns)
{
    uint64_t answered = received / c->config.response_bytes;
    while (c->result.answers_count < answered && c->result.answers_count < c->asked) {
        c->answers[c->result.answers_count++].answered_ns = now_ns;
        c->next_ask_ns = now_ns + c->config.think_ns;
    }
}

/* --- the server, which listens ---------------------------------------------------------------- */

static void listener_goes_on(struct tcp *t)
{
    const struct virtual_tcp_config *config = &t->connection->config;
    if (t->out.has_fin)
        return;
    bool is_over = t->in.next > t->in.fin;
    if (config->request_bytes) {
        uint64_t received = t->in.next ? t->in.next - 1 - is_over : 0;
        t->out.limit = 1 + received / config->request_bytes * config->response_bytes;
    }
    if (is_over) {
        t->out.has_fin = true; /* the server sends a FIN, because it has no more data */
        t->out.limit++;
    }
}

static void record_received(struct tcp *t, uint64_t bytes)
{
    struct connection *c = t->connection;
    uint32_t count = c->result.received_count;
    if (!virtual_room(&c->received, count, &c->received_room, sizeof *c->received)) {
        t->host->partition->is_short = true;
        return;
    }
    uint64_t before = count ? c->received[count - 1].bytes : 0;
    c->received[count] = (struct virtual_tcp_received){t->host->partition->now_ns, before + bytes};
    c->result.received_count++;
}

/* --- client and server ------------------------------------------------------------------------ */

void tcp_application(struct tcp *t)
{
    if (t->number % 2 == OPENS)
        opener_goes_on(t);
    else
        listener_goes_on(t);
    tcp_send(t);
}

void tcp_delivered(struct tcp *t, uint64_t bytes)
{
    if (t->number % 2 == LISTENS)
        record_received(t, bytes);
    else if (t->connection->config.request_bytes)
        take_answers(t->connection, t->in.next - 1, t->host->partition->now_ns);
}
