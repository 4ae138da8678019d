/* Output of an end: segments and headers (RFC 9293), options (RFC 7323, RFC 2018), ECN marks (RFC
 * 3168). */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "tcp.h"

enum {
    ETHERNET = 14, IPV4 = 20, TTL = 64, PROTOCOL_TCP = 6,
    OPTION_NOP = 1, OPTION_MSS = 2, OPTION_SCALE = 3, OPTION_SACK_PERMITTED = 4, OPTION_SACK = 5,
    OPTION_TIMESTAMP = 8,
    ECT_0 = 2 /* ECN field of a packet whose transport supports ECN */
};

static uint8_t *put_16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
    return at + 2;
}

static uint8_t *put_32(uint8_t *at, uint32_t value)
{
    return put_16(put_16(at, value >> 16), value);
}

static uint8_t *put_timestamp(const struct tcp *t, uint8_t *at)
{
    *at++ = OPTION_TIMESTAMP;
    *at++ = 10;
    at = put_32(at, tcp_timestamp(t));
    return put_32(at, t->in.ts_recent);
}

/* Write the options in the order of the Linux kernel: options that a receiver parses in one step
 * come first. */
static uint8_t *put_options(struct tcp *t, uint8_t *at, uint8_t flags)
{
    if (flags & SYN) {
        *at++ = OPTION_MSS;
        *at++ = 4;
        at = put_16(at, t->out.own_mss);
        memset(at, OPTION_NOP, 2);
        if (t->has_sack)
            memcpy(at, (const uint8_t[]){OPTION_SACK_PERMITTED, 2}, 2);
        at += t->has_sack || t->has_timestamps ? 2 : 0;
        if (t->has_timestamps) {
            at = put_timestamp(t, at);
        } else if (t->has_sack) {
            memset(at, OPTION_NOP, 2);
            at += 2;
        }
        if (!t->has_scale)
            return at;
        memcpy(at, (const uint8_t[]){OPTION_NOP, OPTION_SCALE, 3, WINDOW_SCALE}, 4);
        return at + 4;
    }
    if (flags & RST)
        return at;
    if (t->has_timestamps) {
        memset(at, OPTION_NOP, 2);
        at = put_timestamp(t, at + 2);
    }
    struct range blocks[SACK_BLOCKS];
    uint32_t count = t->has_sack ? tcp_sack_blocks(t, blocks) : 0;
    if (!count)
        return at;
    memset(at, OPTION_NOP, 2);
    at[2] = OPTION_SACK;
    at[3] = (uint8_t)(2 + 8 * count);
    at += 4;
    for (uint32_t i = 0; i < count; i++) {
        at = put_32(at, t->peer_isn + (uint32_t)blocks[i].begin);
        at = put_32(at, t->peer_isn + (uint32_t)blocks[i].end);
    }
    return at;
}

static void put_ip(const struct tcp *t, uint8_t *frame, uint32_t length, uint8_t tos)
{
    memcpy(frame, t->peer_mac, 6);
    memcpy(frame + 6, t->host->host.mac, 6);
    put_16(frame + 12, 0x0800);
    uint8_t *ip = frame + ETHERNET;
    memcpy(ip, (const uint8_t[IPV4]){[0] = 0x45, [1] = tos, [6] = 0x40 /* flag "do not fragment" */,
                                     [8] = TTL, [9] = PROTOCOL_TCP}, IPV4);
    put_16(ip + 2, length);
    memcpy(ip + 12, &t->host->host.address, 4);
    memcpy(ip + 16, &t->peer_address, 4);
    uint16_t sum = checksum_fold(checksum_add(0, ip, IPV4));
    memcpy(ip + 10, &sum, 2);
}

/* Send a segment with `data` zero bytes, starting at an offset. */
static void transmit(struct tcp *t, uint64_t begin, uint32_t data, uint8_t flags, bool is_capable)
{
    struct packet *packet = packet_take(t->host->partition->pool);
    if (!packet)
        return; /* is_short is set */
    uint8_t *tcp = packet->data + ETHERNET + IPV4;
    if (flags & ACK && t->in.is_marked && !(flags & SYN))
        flags |= ECE;
    put_16(put_16(tcp, t->port), t->peer_port);
    put_32(tcp + 4, t->isn + (uint32_t)begin);
    put_32(tcp + 8, flags & ACK ? t->peer_isn + (uint32_t)t->in.next : 0);
    put_16(tcp + 14, flags & SYN ? UINT16_MAX : t->in.rcv_wnd >> t->own_scale);
    memset(tcp + 16, 0, 4); /* clear checksum and urgent pointer */
    uint8_t *end = put_options(t, tcp + TCP_HEADER, flags);
    uint32_t header = (uint32_t)(end - tcp);
    tcp[12] = (uint8_t)(header / 4 << 4);
    tcp[13] = flags;
    memset(end, 0, data);
    put_ip(t, packet->data, IPV4 + header + data, (uint8_t)(t->tos | (is_capable ? ECT_0 : 0)));
    uint64_t pseudo = checksum_add(htons(PROTOCOL_TCP), packet->data + ETHERNET + 12, 8) +
                      htons((uint16_t)(header + data));
    /* zero bytes do not change the sum */
    uint16_t sum = checksum_fold(checksum_add(pseudo, tcp, header));
    memcpy(tcp + 16, &sum, 2);
    packet->length = ETHERNET + IPV4 + header + data;
    t->host->host.counters.sent++;
    virtual_put_on_wire(t->host, 0, packet, t->host->partition->now_ns);
    if (flags & ACK) {
        t->in.waiting = 0;
        t->in.quick -= t->in.quick > 0;
        tcp_set(t, TIMER_ACK, UINT64_MAX);
    }
}

void tcp_send_ack(struct tcp *t)
{
    transmit(t, t->out.next, 0, ACK, false);
}

void tcp_send_bare(struct tcp *t, uint8_t flags)
{
    transmit(t, 0, 0, flags, false);
}

/* --- segments that are acknowledged ----------------------------------------------------------- */

/* Send a segment of the ring, for the first time or again. Neither retransmissions nor window
 * probes are ECN-capable (RFC 3168, 6.1.5 and 6.1.6). */
static void transmit_segment(struct tcp *t, struct segment *segment, bool is_new, bool is_probe)
{
    uint8_t flags = t->state == TCP_SYN_SENT ? 0 : ACK;
    uint32_t data = segment->length;
    if (segment->begin == 0) {
        flags |= SYN;
        data--;
        if (t->has_ecn) /* RFC 3168, 6.1.1: the request has both flags, the response only ECE */
            flags |= t->state == TCP_SYN_SENT ? ECE | CWR : ECE;
    } else {
        bool has_fin = t->out.has_fin && segment->begin + segment->length == t->out.limit;
        data -= has_fin;
        flags |= has_fin ? FIN : 0;
        flags |= segment->begin + segment->length == t->out.limit && data ? PSH : 0;
    }
    if (is_new && data && t->wants_cwr) {
        flags |= CWR;
        t->wants_cwr = false;
    }
    segment->sent_ns = t->last_sent_ns = t->host->partition->now_ns;
    segment->transmission = ++t->transmissions;
    transmit(t, segment->begin, data, flags, t->has_ecn && is_new && data && !is_probe);
    tcp_arm(t);
}

/* Add a new segment to the end of the ring. Returns NULL if out of memory. */
static struct segment *add_segment(struct tcp *t, uint32_t length)
{
    struct sending *out = &t->out;
    if (out->end - out->first == out->room) {
        uint32_t room = out->room ? 2 * out->room : 16;
        struct segment *grown = calloc(room, sizeof *grown);
        if (!grown) {
            t->host->partition->is_short = true;
            return NULL;
        }
        for (uint64_t i = out->first; i < out->end; i++)
            grown[i & (room - 1)] = *segment_at(out, i);
        free(out->segment);
        out->segment = grown;
        out->room = room;
    }
    struct segment *segment = segment_at(out, out->end++);
    *segment = (struct segment){.begin = out->next, .length = length};
    out->next += length;
    return segment;
}

void tcp_send_syn(struct tcp *t)
{
    /* in a simultaneous open, the SYN is retransmitted with an ACK */
    bool is_again = t->out.first < t->out.end;
    struct segment *segment = is_again ? segment_at(&t->out, t->out.first) : add_segment(t, 1);
    t->timed_ns = t->host->partition->now_ns;
    if (!segment)
        return;
    segment->was_again = is_again;
    transmit_segment(t, segment, true, false);
}

bool tcp_send_new(struct tcp *t)
{
    struct sending *out = &t->out;
    uint64_t left = out->limit - out->next, allowed = out->window_end - out->next;
    uint32_t length = left < out->mss ? (uint32_t)left : out->mss;
    if (!length)
        return false;
    bool is_probe = (int64_t)allowed <= 0;
    if ((int64_t)allowed < length) {
        if (out->first < out->end)
            return false; /* an acknowledgement will update the window */
        /* RFC 9293, 3.8.6.1: a probe of a zero window, since nothing else would open it */
        length = 1;
    }
    struct segment *segment = add_segment(t, length);
    if (!segment)
        return false;
    if (out->end - out->first == 1) /* start the timer, because no other segment was outstanding */
        t->progress_ns = t->timed_ns = t->host->partition->now_ns;
    transmit_segment(t, segment, true, is_probe);
    t->repair.prr_out++;
    return true;
}

void tcp_send_again(struct tcp *t, struct segment *segment)
{
    t->out.again += !segment->is_again;
    segment->is_again = segment->was_again = true;
    t->retransmitted++;
    t->repair.prr_out++;
    transmit_segment(t, segment, false, false);
}

/* Return the first lost segment that was not retransmitted yet, or NULL. */
static struct segment *next_lost(struct sending *out)
{
    for (; out->lost && out->look_at < out->end; out->look_at++) {
        struct segment *segment = segment_at(out, out->look_at);
        if (segment->is_lost && !segment->is_again)
            return segment;
    }
    return NULL;
}

void tcp_send(struct tcp *t)
{
    struct sending *out = &t->out;
    struct segment *lost;
    if (t->state != TCP_ESTABLISHED)
        return;
    if (out->first == out->end && out->next < out->limit)
        congestion_idle(t, t->host->partition->now_ns - t->last_sent_ns);
    while (tcp_pipe(out) < t->congestion.cwnd && (lost = next_lost(out)))
        tcp_send_again(t, lost);
    while (tcp_pipe(out) < t->congestion.cwnd && tcp_send_new(t))
        ;
    struct congestion *c = &t->congestion;
    uint32_t pipe = tcp_pipe(out);
    /* maximum number of segments in flight per RTT */
    if (out->una >= c->limited_until || pipe > c->most) {
        c->most = pipe;
        c->limited_until = out->next;
    }
    c->is_limited = pipe >= t->congestion.cwnd;
}
