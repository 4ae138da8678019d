/* Functions for Python: profiles, value sets, multicast groups, sessions, digests, custom CRCs. */
#include <stdlib.h>

#include "change.h"
#include "control.h"
#include "engine_internal.h"

/* --- action profiles ------------------------------------------------------------------------- */

static bool is_there(uint8_t presence)
{
    return presence == PRESENT || presence == ARRIVING;
}

static bool has_member(const struct profile *p, uint32_t member)
{
    return member < p->capacity && is_there(p->presence[member]);
}

static bool has_group(const struct profile *p, uint32_t group)
{
    return group < p->group_count && is_there(p->groups[group].presence);
}

static uint8_t arrived(struct engine *e, struct profile *p)
{
    p->is_staged |= e->lock.in_batch;
    return e->lock.in_batch ? ARRIVING : PRESENT;
}

static uint8_t left(struct engine *e, struct profile *p, uint8_t presence)
{
    p->is_staged |= e->lock.in_batch;
    if (!e->lock.in_batch)
        return FREE;
    return presence == ARRIVING ? PASSING : LEAVING;
}

static struct place member_place(struct profile *p, uint32_t member)
{
    return (struct place){&p->slots, (size_t)member * p->stride * sizeof *p->slots};
}

static void use_member(struct engine *e, struct profile *p, uint32_t member, bool is_used)
{
    lock_take(&e->lock, HOLD_STATE);
    p->in_use[member] = is_used;
    lock_give(&e->lock, 1);
}

/* A new member is active immediately, because no entry refers to it yet. */
int64_t engine_member_add(struct engine *e, uint32_t profile, const uint64_t *head_and_data)
{
    struct profile *p = e->context.profiles[profile];
    const uint8_t *room = memchr(p->presence, FREE, p->capacity);
    if (!room)
        return TABLE_FULL;
    uint32_t member = (uint32_t)(room - p->presence);
    memcpy(p->slots + (size_t)member * p->stride, head_and_data, p->stride * sizeof *p->slots);
    use_member(e, p, member, true);
    p->presence[member] = arrived(e, p);
    return member;
}

int engine_member_modify(struct engine *e, uint32_t profile, uint32_t member,
                         const uint64_t *head_and_data)
{
    struct profile *p = e->context.profiles[profile];
    if (!has_member(p, member))
        return TABLE_NOT_FOUND;
    uint32_t size = p->stride * (uint32_t)sizeof *p->slots;
    return change_put(e, member_place(p, member), head_and_data, size, 1, 0);
}

int engine_member_delete(struct engine *e, uint32_t profile, uint32_t member)
{
    struct profile *p = e->context.profiles[profile];
    const bool is_used = false;
    if (!has_member(p, member))
        return TABLE_NOT_FOUND;
    struct place place = {&p->in_use, member * sizeof *p->in_use};
    int result = change_put(e, place, &is_used, sizeof is_used, 1, 0);
    if (!result)
        p->presence[member] = left(e, p, p->presence[member]);
    return result;
}

/* Enlarge the array of groups. The larger array is built without the lock, because packets do not
 * write groups. */
static bool grow_groups(struct engine *e, struct profile *p)
{
    uint32_t room = 2 * p->group_room + 4;
    struct group *groups = calloc(room, sizeof *groups), *old = p->groups;
    if (!groups)
        return false;
    if (old)
        memcpy(groups, old, p->group_count * sizeof *groups);
    lock_take(&e->lock, HOLD_STATE);
    p->groups = groups;
    lock_give(&e->lock, 1);
    p->group_room = room;
    free(old);
    return true;
}

int64_t engine_group_add(struct engine *e, uint32_t profile)
{
    struct profile *p = e->context.profiles[profile];
    for (uint32_t i = 0; i < p->group_count; i++)
        if (p->groups[i].presence == FREE) {
            p->groups[i].presence = arrived(e, p);
            return i;
        }
    if (p->group_count == p->group_room && !grow_groups(e, p))
        return TABLE_NO_MEMORY;
    p->groups[p->group_count].presence = arrived(e, p);
    lock_take(&e->lock, HOLD_STATE);
    uint32_t group = p->group_count++;
    lock_give(&e->lock, 1);
    return group;
}

static int put_choice(struct engine *e, struct profile *p, uint32_t group,
                      const struct choice *choice)
{
    struct place place = {&p->groups, group * sizeof *p->groups + offsetof(struct group, choice)};
    return change_put(e, place, choice, sizeof *choice, 1, CHANGE_OWNS);
}

int engine_group_set(struct engine *e, uint32_t profile, uint32_t group, const uint32_t *members,
                     uint32_t count)
{
    struct profile *p = e->context.profiles[profile];
    if (!has_group(p, group))
        return TABLE_NOT_FOUND;
    for (uint32_t i = 0; i < count; i++)
        if (!has_member(p, members[i]))
            return TABLE_NOT_FOUND;
    struct choice choice = {malloc((count + 1) * sizeof *members), count};
    if (!choice.members)
        return TABLE_NO_MEMORY;
    memcpy(choice.members, members, count * sizeof *members);
    int result = put_choice(e, p, group, &choice);
    if (result)
        free(choice.members);
    return result;
}

int engine_group_delete(struct engine *e, uint32_t profile, uint32_t group)
{
    struct profile *p = e->context.profiles[profile];
    if (!has_group(p, group))
        return TABLE_NOT_FOUND;
    int result = put_choice(e, p, group, &(struct choice){0});
    if (!result)
        p->groups[group].presence = left(e, p, p->groups[group].presence);
    return result;
}

static uint8_t settled(uint8_t presence, bool is_committed)
{
    if (presence == ARRIVING)
        return is_committed ? PRESENT : FREE;
    if (presence == LEAVING)
        return is_committed ? FREE : PRESENT;
    return presence == PASSING ? FREE : presence;
}

void profiles_settle(struct engine *e, bool is_committed)
{
    for (uint32_t i = 0; i < program.profiles; i++) {
        struct profile *p = e->context.profiles[i];
        if (!p || !p->is_staged)
            continue;
        for (uint32_t m = 0; m < p->capacity; m++) {
            uint8_t before = p->presence[m];
            p->presence[m] = settled(before, is_committed);
            if (!is_committed && (before == ARRIVING || before == PASSING))
                use_member(e, p, m, false);
        }
        for (uint32_t g = 0; g < p->group_count; g++)
            p->groups[g].presence = settled(p->groups[g].presence, is_committed);
        p->is_staged = false;
    }
}

/* --- value sets ------------------------------------------------------------------------------ */

int engine_value_set(struct engine *e, uint32_t value_set, const uint64_t *words, uint32_t count)
{
    struct value_set **set = &e->context.value_sets[value_set];
    size_t size = (size_t)count * (*set)->words * sizeof *words;
    struct values values = {malloc(size + 1), count};
    if (!values.words)
        return TABLE_NO_MEMORY;
    memcpy(values.words, words, size);
    struct place place = {set, offsetof(struct value_set, values)};
    int result = change_put(e, place, &values, sizeof values, 1, CHANGE_OWNS);
    if (result)
        free(values.words);
    return result;
}

/* --- replication ----------------------------------------------------------------------------- */

static struct replicas ***all_replicas(struct engine *e, bool is_session)
{
    return is_session ? &e->sessions : &e->groups;
}

static bool make_all(struct engine *e, bool is_session)
{
    struct replicas ***all = all_replicas(e, is_session);
    if (*all)
        return true;
    struct replicas **made = calloc(is_session ? MAX_SESSIONS : MAX_GROUPS, sizeof *made);
    lock_take(&e->lock, HOLD_STATE);
    *all = made;
    lock_give(&e->lock, 1);
    return made != NULL;
}

static int put_replicas(struct engine *e, bool is_session, uint32_t number, struct replicas *r)
{
    number &= (is_session ? MAX_SESSIONS : MAX_GROUPS) - 1;
    struct place place = {all_replicas(e, is_session), number * sizeof r};
    return change_put(e, place, &r, sizeof r, 1, CHANGE_OWNS);
}

int engine_replicas_set(struct engine *e, bool is_session, uint32_t number,
                        const uint16_t *replicas, uint32_t count, uint32_t truncate_to)
{
    struct replicas *r = malloc(sizeof *r + count * sizeof r->item[0]);
    if (!r || !make_all(e, is_session)) {
        free(r);
        return TABLE_NO_MEMORY;
    }
    r->count = count;
    r->truncate_to = truncate_to;
    for (uint32_t i = 0; i < count; i++)
        r->item[i] = (struct replica){replicas[2 * i], replicas[2 * i + 1]};
    int result = put_replicas(e, is_session, number, r);
    if (result)
        free(r);
    return result;
}

int engine_replicas_delete(struct engine *e, bool is_session, uint32_t number)
{
    struct replicas **all = *all_replicas(e, is_session);
    uint32_t at = number & ((is_session ? MAX_SESSIONS : MAX_GROUPS) - 1);
    /* `all` does not contain sessions that the current batch sets */
    if (!all || (!all[at] && !e->lock.in_batch))
        return TABLE_NOT_FOUND;
    return put_replicas(e, is_session, number, NULL);
}

/* --- digests, hashes ------------------------------------------------------------------------- */

uint32_t engine_digests_take(struct engine *e, uint32_t room, struct digest_sample *out)
{
    memset(out, 0, room * sizeof *out); /* page faults occur now, not while the lock is held */
    lock_take(&e->lock, HOLD_STATE);
    uint32_t count = e->digest_count < room ? e->digest_count : room;
    for (uint32_t i = 0; i < count; i++)
        out[i] = e->digests[(e->digest_first + i) % MAX_DIGESTS];
    e->digest_first = (e->digest_first + count) % MAX_DIGESTS;
    e->digest_count -= count;
    lock_give(&e->lock, count * sizeof *out / sizeof(uint64_t));
    return count;
}
