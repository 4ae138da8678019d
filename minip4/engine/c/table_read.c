/* Control-plane reads of a table: entries with their counts and ages, one slice at a time. */
#include "table.h"

/* Return the number of slots that one hold may access. */
static uint32_t slice_of(const struct table *t)
{
    uint32_t lines = (t->stride * (uint32_t)sizeof(uint64_t) + 63) / 64;
    return lines < SLICE_LINES ? SLICE_LINES / lines : 1;
}

static void copy(const struct table *t, uint32_t number, uint64_t *out)
{
    out[0] = (uint64_t)t->info[number].generation << 32 | number;
    out[1] = (uint64_t)(int64_t)t->info[number].priority;
    memcpy(out + COPY_HEAD, t->slots + number * (size_t)t->stride, t->stride * sizeof *out);
}

bool table_copy_one(struct table *t, int64_t handle, uint64_t *out)
{
    if (!table_slot(t, handle))
        return false;
    lock_take(t->lock, HOLD_READ);
    copy(t, (uint32_t)handle, out);
    lock_give(t->lock, t->stride);
    return true;
}

uint32_t table_copy(struct table *t, uint32_t *from, uint32_t room, uint64_t *out)
{
    uint32_t count = 0, at = *from, words = COPY_HEAD + t->stride;
    /* page faults occur now, not while the lock is held */
    memset(out, 0, (size_t)room * words * sizeof *out);
    while (at < t->fresh && count < room) {
        uint32_t left = slice_of(t), before = count;
        lock_take(t->lock, HOLD_READ);
        for (; left && at < t->fresh && count < room; at++, left--)
            if (is_present(t, at))
                copy(t, at, out + (size_t)count++ * words);
        lock_give(t->lock, (count - before) * (uint64_t)t->stride);
    }
    *from = at;
    return count;
}

int table_set_timeout(struct table *t, int64_t handle, uint64_t timeout_ns)
{
    if (!table_slot(t, handle) || !t->ageing)
        return TABLE_NOT_FOUND;
    struct ageing *ageing = &t->ageing[(uint32_t)handle];
    t->watched += (timeout_ns != 0) - (ageing->timeout_ns != 0);
    *ageing = (struct ageing){.timeout_ns = timeout_ns};
    return 0;
}

/* Return the number of timeouts for which an entry has been idle. */
static uint64_t passed(const struct table *t, uint32_t number, uint64_t now_ns)
{
    uint64_t hit_ns = t->slots[number * (size_t)t->stride + t->stride - 1];
    uint64_t timeout_ns = t->ageing[number].timeout_ns;
    return timeout_ns && now_ns > hit_ns ? (now_ns - hit_ns) / timeout_ns : 0;
}

uint32_t table_age(struct table *t, uint32_t *from, uint64_t now_ns, uint32_t room, uint64_t *out)
{
    uint32_t count = 0, at = *from;
    while (at < t->fresh && count < room) {
        uint32_t left = SLICE_LINES;
        lock_take(t->lock, HOLD_READ);
        for (; left && at < t->fresh && count < room; at++, left--) {
            uint64_t times = is_present(t, at) ? passed(t, at, now_ns) : 0;
            if (times > t->ageing[at].reported) {
                out[2 * count] = (uint64_t)t->info[at].generation << 32 | at;
                out[2 * count++ + 1] = times;
            }
            t->ageing[at].reported = times;
        }
        lock_give(t->lock, SLICE_LINES - left);
    }
    *from = at;
    return count;
}
