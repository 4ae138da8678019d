/* Action profiles and parser value sets. */
#ifndef MINIP4_STATE_H
#define MINIP4_STATE_H

#include "table.h"

/* Control-plane state of a member or group. The current batch may add it, remove it, or both. */
enum presence { FREE, PRESENT, ARRIVING, LEAVING, PASSING };

struct group {
    struct choice {
        uint32_t *members, count;
    } choice;
    uint8_t presence;
};

/* The members are slots with a head word (as in tables) and the action's data. */
struct profile {
    uint64_t *slots;
    bool *in_use;
    uint32_t stride, capacity, group_count;
    struct group *groups;
    /* Data that only the control plane uses. */
    uint8_t *presence; /* one per member */
    uint32_t group_room;
    bool is_staged;    /* a batch adds or removes members or groups */
};

struct value_set {
    struct values {
        uint64_t *words;
        uint32_t count;
    } values;
    uint32_t words; /* words per value */
};

struct profile_spec {
    uint32_t max_size, data_words;
};

struct profile *profile_create(const struct profile_spec *spec);
void profile_destroy(struct profile *profile);

/* Return the member of an entry; in a group, `hash` selects it. Returns NULL if the group is empty
 * or the member was deleted. */
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
