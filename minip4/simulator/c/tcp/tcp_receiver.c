/* Processing of received data: data in order, data out of order, and SACK blocks that report data
 * out of order. */
#include <stdlib.h>
#include <string.h>

#include "tcp.h"

/* Insert an element at an index of the list. Returns false if out of memory. */
static bool insert(struct receiving *in, uint32_t at)
{
    if (!virtual_room(&in->range, in->ranges, &in->room, sizeof *in->range))
        return false;
    memmove(&in->range[at + 1], &in->range[at], (in->ranges - at) * sizeof *in->range);
    in->ranges++;
    return true;
}

static void remove_ranges(struct receiving *in, uint32_t at, uint32_t count)
{
    memmove(&in->range[at], &in->range[at + count],
            (in->ranges - at - count) * sizeof *in->range);
    in->ranges -= count;
}

/* Store the range begin..end, and merge it with adjacent ranges. The range follows a gap. */
static void keep(struct tcp *t, uint64_t begin, uint64_t end)
{
    struct receiving *in = &t->in;
    uint32_t at = 0, last;
    while (at < in->ranges && in->range[at].end < begin)
        at++;
    for (last = at; last < in->ranges && in->range[last].begin <= end; last++) {
        if (in->range[last].begin <= begin && in->range[last].end >= end)
            in->duplicate = (struct range){begin, end, 0};
        begin = in->range[last].begin < begin ? in->range[last].begin : begin;
        end = in->range[last].end > end ? in->range[last].end : end;
    }
    if (last > at)
        remove_ranges(in, at + 1, last - at - 1);
    else if (!insert(in, at)) {
        t->host->partition->is_short = true;
        return;
    }
    in->range[at] = (struct range){begin, end, ++in->touched};
}

/* Deliver the data up to `end`, and the stored ranges that are now in order. */
static void advance(struct tcp *t, uint64_t end)
{
    struct receiving *in = &t->in;
    uint64_t before = in->next;
    uint32_t joined = 0;
    for (in->next = end; joined < in->ranges && in->range[joined].begin <= in->next; joined++)
        in->next = in->range[joined].end > in->next ? in->range[joined].end : in->next;
    if (joined)
        remove_ranges(in, 0, joined);
    uint64_t bytes = in->next - before - (in->next > in->fin);
    if (bytes)
        tcp_delivered(t, bytes);
}

void tcp_take_data(struct tcp *t, uint64_t begin, uint32_t length, bool is_fin)
{
    struct receiving *in = &t->in;
    uint64_t end = begin + length + is_fin;
    if (end > in->next + in->rcv_wnd) { /* RFC 9293, 3.10.7.4: ignore data beyond the window */
        end = in->next + in->rcv_wnd;
        length = (uint32_t)(end - begin);
        is_fin = false;
    }
    if (is_fin)
        in->fin = begin + length;
    /* RFC 5681, 4.2: the segment fills a gap, or a part of a gap */
    bool is_hurried = in->ranges > 0 || is_fin;
    if (begin < in->next) { /* at least some of the data had already arrived */
        in->duplicate = (struct range){begin, end < in->next ? end : in->next, 0};
        begin = in->next;
        is_hurried = true;
    }
    if (begin > in->next) {
        keep(t, begin, end);
        is_hurried = true;
    } else if (end > begin) {
        in->waiting += (uint32_t)(end - begin);
        advance(t, end);
    }
    if (is_hurried || in->quick || in->waiting > t->out.mss)
        tcp_send_ack(t);
    else if (t->due_ns[TIMER_ACK] == UINT64_MAX)
        tcp_set(t, TIMER_ACK, t->host->partition->now_ns + DELAYED_ACK_NS);
}

/* Return the range with the latest change before `before`, or NULL. */
static const struct range *last_touched(const struct receiving *in, uint64_t before)
{
    const struct range *found = NULL;
    for (uint32_t i = 0; i < in->ranges; i++)
        if (in->range[i].touched < before && (!found || in->range[i].touched > found->touched))
            found = &in->range[i];
    return found;
}

uint32_t tcp_sack_blocks(struct tcp *t, struct range *blocks)
{
    struct receiving *in = &t->in;
    uint32_t count = 0;
    if (in->duplicate.end) { /* RFC 2883: the duplicate is the first block */
        blocks[count++] = in->duplicate;
        in->duplicate = (struct range){0};
    }
    uint64_t before = UINT64_MAX;
    const struct range *range;
    while (count < SACK_BLOCKS && (range = last_touched(in, before))) {
        blocks[count++] = *range;
        before = range->touched;
    }
    return count;
}
