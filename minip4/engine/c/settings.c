/* Settings of ports, links, queues and the clock, and their counters. */
#include <string.h>

#include "engine_internal.h"

static void keep_counters(struct link_counters *past, const struct link_counters *now)
{
    past->sent_packets += now->sent_packets;
    past->sent_bytes += now->sent_bytes;
    past->delivered_packets += now->delivered_packets;
    past->delivered_bytes += now->delivered_bytes;
    past->lost_packets += now->lost_packets;
    past->lost_bytes += now->lost_bytes;
}

static void remove_link(struct engine *e, struct port *port)
{
    if (!e->driver.keeps_flying)
        link_advance(&port->link, UINT64_MAX); /* deliver all frames in flight */
    const struct link_counters *counters = link_counters(&port->link);
    keep_counters(&backlog_of(e, port)->past_links, counters);
    port->transmitted_packets += counters->sent_packets;
    port->transmitted_bytes += counters->sent_bytes;
    link_close(&port->link);
}

void engine_catch_up(struct engine *e, uint64_t now_ns)
{
    engine_lock(e);
    engine_advance(e, now_ns);
    engine_unlock(e);
}

static bool change_link(struct engine *e, struct port *port, const struct link_config *config)
{
    if (has_link(port) && config) {
        link_configure(&port->link, config);
    } else if (has_link(port)) {
        remove_link(e, port);
    } else if (config) {
        if (!traffic_make_link(port, config))
            return false;
        backlog_of(e, port)->link_due_ns = UINT64_MAX;
    }
    traffic_settle(e, port);
    return true;
}

bool engine_set_link(struct engine *e, uint16_t number, const struct link_config *config)
{
    engine_lock(e);
    bool done = change_link(e, &e->port[number], config);
    engine_unlock(e);
    return done;
}

void engine_set_port(struct engine *e, uint16_t number, bool is_up)
{
    engine_lock(e);
    e->port[number].is_up = is_up;
    traffic_settle(e, &e->port[number]);
    engine_unlock(e);
}

void engine_set_priorities(struct engine *e, uint32_t count)
{
    e->priorities = (uint16_t)count;
}

void engine_deflect_on_drop(struct engine *e, bool is_on)
{
    engine_lock(e);
    e->deflects = is_on;
    engine_unlock(e);
}

void engine_set_cpu_port(struct engine *e, uint16_t port)
{
    engine_lock(e);
    e->cpu_port = port;
    engine_unlock(e);
}

static void set_rate(struct shaper *shaper, uint64_t rate, uint64_t now_ns)
{
    if (shaper->rate != rate)
        *shaper = (struct shaper){.rate = rate, .ready_ns = now_ns};
}

void engine_set_queue(struct engine *e, uint16_t number, uint32_t priority,
                      const struct queue_config *config, uint64_t now_ns)
{
    struct port *port = &e->port[number];
    struct queue *queues = backlog_of(e, port)->queue, *queue = &queues[priority];
    engine_lock(e);
    engine_advance(e, now_ns); /* first process the work that was due with the old rates */
    queue->is_set = true;
    queue->config = *config;
    set_rate(&queue->pps, config->rate_pps, now_ns);
    set_rate(&queue->bps, config->rate_bps, now_ns);
    port->is_shaped = false;
    for (uint32_t i = 0; i < ENGINE_MAX_PRIORITIES; i++)
        port->is_shaped |= queues[i].pps.rate || queues[i].bps.rate;
    e->is_shaped |= port->is_shaped;
    traffic_settle(e, port);
    engine_unlock(e);
}

void engine_queue_state(struct engine *e, uint16_t number, uint32_t priority,
                        struct queue_state *out)
{
    const struct queue *queue = &e->backlog[number].queue[priority];
    engine_lock(e);
    *out = (struct queue_state){
        .config = queue->is_set ? queue->config
                                : (struct queue_config){.depth_packets = DEFAULT_QUEUE_DEPTH},
        .packets = queue->packets.count,
        .bytes = queue->bytes,
        .drops = queue->drops,
    };
    engine_unlock(e);
}

void engine_set_clock(struct engine *e, int64_t offset_us, int32_t drift_ppb, uint64_t since_ns)
{
    engine_lock(e);
    e->drifts_since_ns = since_ns;
    e->clock_offset_us = offset_us;
    e->clock_drift_ppb = drift_ppb;
    engine_unlock(e);
}

void engine_port_counters(struct engine *e, uint16_t number, struct engine_port_counters *out)
{
    struct port *port = &e->port[number];
    const struct backlog *backlog = backlog_of(e, port);
    engine_lock(e);
    *out = (struct engine_port_counters){
        e->received[number].packets, e->received[number].bytes, port->transmitted_packets,
        port->transmitted_bytes, backlog->queue_drops, port->waiting, backlog->past_links,
    };
    if (has_link(port)) {
        const struct link_counters *link = link_counters(&port->link);
        out->transmitted_packets += link->sent_packets;
        out->transmitted_bytes += link->sent_bytes;
        keep_counters(&out->link, link);
    }
    engine_unlock(e);
}

void engine_counters(struct engine *e, struct engine_counters *out)
{
    engine_lock(e);
    *out = e->counters;
    for (uint32_t i = 0; i < ENGINE_MAX_PORTS; i++) {
        const struct port *port = &e->port[i];
        out->received += e->received[i].packets;
        out->transmitted += port->transmitted_packets + port->link.sent_packets;
    }
    engine_unlock(e);
}

void engine_drops(struct engine *e, uint32_t port, uint64_t out[DROP_REASONS])
{
    engine_lock(e);
    memcpy(out, e->backlog[port].drops, sizeof e->backlog[port].drops);
    engine_unlock(e);
}
