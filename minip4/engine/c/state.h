/* Action profiles and parser value sets. */
#ifndef MINIP4_STATE_H
#define MINIP4_STATE_H

#include "table.h"

/* Control-plane state of a member or group: the current batch adds it, removes it, or both. */
enum presence { FREE, PRESENT, ARRIVING, LEAVING, PASSING };

struct group {
    struct choice {
        uint32_t *members, count;
    } choice;
    uint8_t presence;
};

/* Members: slots of a head word (as in tables) and the action's data. */
struct profile {
    uint64_t *slots;
    bool *in_use;
    uint32_t stride, capacity, group_count;
    struct group *groups;
    /* The control plane's own. */
    uint8_t *presence; /* of members */
    uint32_t group_room;
    bool is_staged;    /* something arrives or leaves */
};

struct value_set {
    struct values {
        uint64_t *words;
        uint32_t count;
    } values;
    uint32_t words; /* of each value */
};

struct profile_spec {
    uint32_t max_size, data_words;
};

struct profile *profile_create(const struct profile_spec *spec);
void profile_destroy(struct profile *profile);

/* The member of an entry; `hash` selects it in a group. NULL: an empty group or a deleted member. */
ALWAYS_INLINE uint64_t *profile_resolve(const struct profile *profile, const uint64_t *slot,
                                        uint64_t hash)
{
    uint32_t number = (uint32_t)slot[0];
    if ((slot[0] >> 32 & 3) == ENTRY_GROUP) {
        const struct choice *choice = &profile->groups[number].choice;
        if (number >= profile->group_count || !choice->count)
            return NULL;
        number = choice->members[hash % choice->count];
    }
    if (number >= profile->capacity || !profile->in_use[number])
        return NULL;
    return profile->slots + (size_t)number * profile->stride;
}

bool value_set_contains(const struct value_set *set, const uint64_t *key, const uint64_t *mask);

#endif
