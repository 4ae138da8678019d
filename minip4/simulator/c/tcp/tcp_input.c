/* Processing of segments that arrive at a host (RFC 9293, 3.10.7). */
#include <arpa/inet.h>

#include "tcp.h"

enum {
    PROTOCOL_TCP = 6,
    OPTION_END = 0, OPTION_NOP = 1, OPTION_MSS = 2, OPTION_SCALE = 3,
    OPTION_SACK_PERMITTED = 4, OPTION_SACK = 5, OPTION_TIMESTAMP = 8,
    ECN = 3, CE = 3,     /* RFC 3168: mask of the ECN field, and the code point of marked packets */
    DEFAULT_MSS = 536,   /* RFC 9293, 3.7.1: the MSS of a peer that sends no MSS option */
    /* number of acknowledgements that are not delayed at the start (slow start: RFC 5681, 4.2) */
    QUICK_ACKS = 16
};

struct parsed {
    uint32_t sequence, acknowledged, window, data;
    uint32_t time, echoed, mss, scale;
    uint32_t block[SACK_BLOCKS + 1][2], blocks;
    uint8_t flags;
    bool has_time, has_scale, has_sack, is_marked;
};

static uint32_t get_16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get_32(const uint8_t *at)
{
    return get_16(at) << 16 | get_16(at + 2);
}

static void parse_option(struct parsed *parsed, const uint8_t *option, uint32_t length)
{
    if (option[0] == OPTION_MSS && length == 4)
        parsed->mss = get_16(option + 2);
    else if (option[0] == OPTION_SCALE && length == 3) {
        parsed->scale = option[2] < 14 ? option[2] : 14; /* RFC 7323, 2.3: at most 14 */
        parsed->has_scale = true;
    } else if (option[0] == OPTION_SACK_PERMITTED && length == 2)
        parsed->has_sack = true;
    else if (option[0] == OPTION_TIMESTAMP && length == 10) {
        parsed->time = get_32(option + 2);
        parsed->echoed = get_32(option + 6);
        parsed->has_time = true;
    } else if (option[0] == OPTION_SACK) {
        for (uint32_t at = 2; at + 8 <= length && parsed->blocks <= SACK_BLOCKS; at += 8) {
            parsed->block[parsed->blocks][0] = get_32(option + at);
            parsed->block[parsed->blocks++][1] = get_32(option + at + 4);
        }
    }
}

static struct parsed parse(const uint8_t *bytes, uint32_t header, uint32_t length)
{
    struct parsed parsed = {.sequence = get_32(bytes + 4), .acknowledged = get_32(bytes + 8),
                            .window = get_16(bytes + 14), .data = length - header,
                            .mss = DEFAULT_MSS, .flags = bytes[13]};
    for (uint32_t at = TCP_HEADER; at < header && bytes[at] != OPTION_END;) {
        if (bytes[at] == OPTION_NOP) {
            at++;
            continue;
        }
        uint32_t size = at + 1 < header ? bytes[at + 1] : 0;
        if (size < 2 || at + size > header)
            break;
        parse_option(&parsed, bytes + at, size);
        at += size;
    }
    return parsed;
}

/* Return the offset of a sequence number, choosing the offset closest to a known one. A negative
 * result is before the start of the stream. */
static int64_t offset_of(uint32_t sequence, uint32_t isn, uint64_t near)
{
    return (int64_t)near + (int32_t)(sequence - (isn + (uint32_t)near));
}

/* --- resets ----------------------------------------------------------------------------------- */

/* RFC 9293, 3.10.7.1: refuse a segment of an unknown connection. A temporary end sends the RST. */
static void refuse(struct node *node, const struct parsed *parsed, const uint8_t *ip,
                   const uint8_t *bytes)
{
    uint8_t flags = parsed->flags;
    if (flags & RST)
        return;
    /* no connection (RFC 9293 section 3.10.7.1): the RST goes to the sender of the frame */
    struct tcp closed = {.host = node, .peer_mac = ip - 8,
                         .port = (uint16_t)get_16(bytes + 2), .peer_port = (uint16_t)get_16(bytes),
                         .isn = flags & ACK ? parsed->acknowledged : 0,
                         .in.rcv_wnd = UINT16_MAX};
    memcpy(&closed.peer_address, ip + 12, 4);
    closed.peer_isn = parsed->sequence + parsed->data + !!(flags & SYN) + !!(flags & FIN);
    tcp_send_bare(&closed, flags & ACK ? RST : RST | ACK);
}

/* RFC 5961, 3.2: accept a RST only with exactly the next sequence number. For a different number
 * within the window, send a challenge ACK: a peer that really sent the RST retransmits it with the
 * right number. */
static void take_reset(struct tcp *t, const struct parsed *parsed)
{
    int64_t begin = offset_of(parsed->sequence, t->peer_isn, t->in.next);
    int64_t ahead = begin - (int64_t)t->in.next;
    if (!ahead)
        tcp_reset(t);
    else if (ahead > 0 && ahead < t->in.rcv_wnd)
        tcp_send_ack(t);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Read the peer's options from its SYN. This end offers all options. It does not send options that
 * the peer does not offer (RFC 7323, 2.2 and 3.2; RFC 2018, 2). */
static void know_peer(struct tcp *t, const struct parsed *parsed)
{
    t->peer_isn = parsed->sequence;
    t->has_timestamps = parsed->has_time;
    t->has_sack = parsed->has_sack;
    t->has_scale = parsed->has_scale;
    t->peer_scale = (uint8_t)parsed->scale;
    t->own_scale = t->has_scale ? WINDOW_SCALE : 0;
    t->in.rcv_wnd = (uint32_t)UINT16_MAX << t->own_scale;
    uint32_t mss = parsed->mss < t->out.own_mss ? parsed->mss : t->out.own_mss;
    uint32_t options = t->has_timestamps ? TIMESTAMP_OPTION : 0;
    t->out.mss = mss > options ? mss - options : 1;
    t->in.next = 1;
    t->in.fin = UINT64_MAX;
    t->in.ts_recent = parsed->time;
    t->in.quick = QUICK_ACKS;
}

static void take_syn(struct tcp *t, const struct parsed *parsed, const uint8_t *ip,
                     const uint8_t *bytes)
{
    if ((parsed->flags & (SYN | ACK | RST | FIN)) != SYN)
        return;
    memcpy(&t->peer_address, ip + 12, 4);
    t->peer_port = (uint16_t)get_16(bytes);
    know_peer(t, parsed);
    t->has_ecn = t->connection->config.has_ecn && (parsed->flags & (ECE | CWR)) == (ECE | CWR);
    t->state = TCP_SYN_RECEIVED;
    tcp_send_syn(t);
}

static void become_established(struct tcp *t, const struct parsed *parsed)
{
    struct acknowledgement ack = {.una = 1, .has_timestamp = t->has_timestamps && parsed->has_time,
                                  .echoed = parsed->echoed};
    t->state = TCP_ESTABLISHED;
    tcp_take_ack(t, &ack);
    /* RFC 6298, 5.7: the SYN was retransmitted, and without timestamps its copies cannot be
     * distinguished */
    if (!t->srtt_ns) {
        t->rto_ns = RTO_AFTER_SYN_NS;
        t->repair.backoff = 0;
    }
    congestion_begin(t);
}

/* Process a segment in SYN-SENT (RFC 9293, 3.10.7.3). */
static void take_in_syn_sent(struct tcp *t, const struct parsed *parsed, const uint8_t *ip,
                             const uint8_t *bytes)
{
    bool has_ack = parsed->flags & ACK;
    if (has_ack && parsed->acknowledged != t->isn + 1) {
        refuse(t->host, parsed, ip, bytes);
        return;
    }
    if (parsed->flags & RST) {
        if (has_ack)
            tcp_reset(t);
        return;
    }
    if (!(parsed->flags & SYN))
        return;
    know_peer(t, parsed);
    t->out.window_end = 1 + parsed->window; /* RFC 7323, 2.2: the window of a SYN is not scaled */
    t->out.snd_wnd = parsed->window;
    if (!has_ack) { /* a simultaneous open */
        t->has_ecn = t->has_ecn && (parsed->flags & (ECE | CWR)) == (ECE | CWR);
        t->state = TCP_SYN_RECEIVED;
        tcp_send_syn(t);
        return;
    }
    t->has_ecn = t->has_ecn && (parsed->flags & (ECE | CWR)) == ECE;
    become_established(t, parsed);
    tcp_send_ack(t);
    tcp_application(t);
}

/* Process a SYN in SYN-RECEIVED; returns whether the segment is a SYN. If the response was lost, it
 * is retransmitted. A simultaneous open ends with the peer's SYN, ACK (RFC 9293, 3.5). */
static bool takes_syn_again(struct tcp *t, const struct parsed *parsed)
{
    if (!(parsed->flags & SYN) || t->state != TCP_SYN_RECEIVED)
        return false;
    if (!(parsed->flags & ACK)) {
        tcp_send_again(t, segment_at(&t->out, t->out.first));
    } else if (t->number % 2 == OPENS && parsed->sequence == t->peer_isn &&
               parsed->acknowledged == t->isn + 1) {
        become_established(t, parsed);
        tcp_send_ack(t);
        tcp_application(t);
    } else {
        tcp_send_ack(t);
    }
    return true;
}

/* --- established ------------------------------------------------------------------------------ */

static void take_marks(struct tcp *t, const struct parsed *parsed)
{
    struct receiving *in = &t->in;
    if (t->congestion.kind == TCP_DCTCP) { /* RFC 8257, 3.2: ECE reports each packet's mark */
        if (parsed->is_marked != in->is_marked && in->waiting)
            tcp_send_ack(t);
        in->is_marked = parsed->is_marked;
    } else { /* RFC 3168, 6.1.3; the acknowledgement is immediate, as in the Linux kernel */
        in->quick += parsed->is_marked && !in->is_marked;
        in->is_marked = parsed->is_marked || (in->is_marked && !(parsed->flags & CWR));
    }
}

/* Process an acknowledgement. Returns false if it acknowledges data that were never sent. */
static bool take_acknowledgement(struct tcp *t, const struct parsed *parsed)
{
    struct sending *out = &t->out;
    int64_t una = offset_of(parsed->acknowledged, t->isn, out->una);
    if (una > (int64_t)out->next)
        return false;
    if (una < (int64_t)out->una)
        return true; /* an old acknowledgement; later ones have overtaken it */
    bool is_duplicate = una == (int64_t)out->una && !parsed->data && !(parsed->flags & FIN) &&
                        parsed->window == out->snd_wnd;
    out->snd_wnd = parsed->window;
    uint64_t end = (uint64_t)una + ((uint64_t)parsed->window << t->peer_scale);
    out->window_end = end > out->window_end ? end : out->window_end;
    struct range blocks[SACK_BLOCKS + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < parsed->blocks; i++) {
        int64_t begin = offset_of(parsed->block[i][0], t->isn, out->una);
        int64_t last = offset_of(parsed->block[i][1], t->isn, out->una);
        if (t->has_sack && begin > 0 && begin < last && last <= (int64_t)out->next)
            blocks[count++] = (struct range){(uint64_t)begin, (uint64_t)last, 0};
    }
    struct acknowledgement ack = {(uint64_t)una, blocks, count, parsed->flags & ECE, is_duplicate,
                                  t->has_timestamps && parsed->has_time, parsed->echoed};
    tcp_take_ack(t, &ack);
    return true;
}

/* Return whether a segment begins or ends in the receive window (RFC 9293, 3.4). The window is
 * never closed. */
static bool is_acceptable(const struct tcp *t, int64_t begin, uint32_t length)
{
    int64_t first = begin - (int64_t)t->in.next, last = first + length - (length > 0);
    return (first >= 0 && first < t->in.rcv_wnd) || (last >= 0 && last < t->in.rcv_wnd);
}

/* Process a segment in a synchronized state (RFC 9293, 3.10.7.4, and RFC 5961). */
static void take_segment(struct tcp *t, const struct parsed *parsed, const uint8_t *ip,
                         const uint8_t *bytes)
{
    int64_t begin = offset_of(parsed->sequence, t->peer_isn, t->in.next);
    bool is_fin = parsed->flags & FIN;
    uint32_t length = parsed->data + is_fin;
    if (takes_syn_again(t, parsed))
        return;
    if (parsed->flags & SYN || begin < 1 || !is_acceptable(t, begin, length)) {
        /* RFC 2883: report a duplicate */
        if (length && begin >= 1 && begin + length <= (int64_t)t->in.next)
            t->in.duplicate = (struct range){(uint64_t)begin, (uint64_t)begin + length, 0};
        tcp_send_ack(t); /* RFC 9293, 3.10.7.4: send an ACK with the expected sequence number */
        return;
    }
    if (!(parsed->flags & ACK))
        return;
    if (t->state == TCP_SYN_RECEIVED) {
        if (parsed->acknowledged != t->isn + 1) {
            refuse(t->host, parsed, ip, bytes);
            return;
        }
        become_established(t, parsed);
    }
    if (!take_acknowledgement(t, parsed)) {
        tcp_send_ack(t);
        return;
    }
    if (parsed->has_time && (uint64_t)begin <= t->in.next) /* RFC 7323, 4.3: update TS.Recent */
        t->in.ts_recent = parsed->time;
    if (parsed->data)
        take_marks(t, parsed);
    if (parsed->data || is_fin)
        tcp_take_data(t, (uint64_t)begin, parsed->data, is_fin);
    tcp_application(t);
}

void tcp_receive(struct node *node, const uint8_t *ip, const uint8_t *bytes, uint32_t length)
{
    struct virtual_host_counters *counters = &node->host.counters;
    uint32_t header = length >= TCP_HEADER ? (bytes[12] >> 4) * 4u : 0;
    uint64_t pseudo = checksum_add(htons(PROTOCOL_TCP), ip + 12, 8) + htons((uint16_t)length);
    if (header < TCP_HEADER || header > length ||
        checksum_fold(checksum_add(pseudo, bytes, length)) != 0) {
        counters->checksum_errors++;
        return;
    }
    uint32_t address;
    memcpy(&address, ip + 12, 4);
    struct tcp *t = tcp_find(node->partition->v, node->number, (uint16_t)get_16(bytes + 2), address,
                             (uint16_t)get_16(bytes));
    struct parsed parsed = parse(bytes, header, length);
    if (!t || t->state == TCP_CLOSED || (t->state == TCP_LISTEN && parsed.flags & ACK)) {
        counters->unclaimed++;
        refuse(node, &parsed, ip, bytes);
        return;
    }
    parsed.is_marked = (ip[1] & ECN) == CE;
    if (t->state == TCP_LISTEN)
        take_syn(t, &parsed, ip, bytes);
    else if (t->state == TCP_SYN_SENT)
        take_in_syn_sent(t, &parsed, ip, bytes);
    else if (parsed.flags & RST)
        take_reset(t, &parsed);
    else
        take_segment(t, &parsed, ip, bytes);
}
