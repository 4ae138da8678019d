/* Action profiles and parser value sets. */
#ifndef MINIP4_STATE_H
#define MINIP4_STATE_H

#include "table.h"

struct group {
    bool is_used;
    uint32_t count, *members;
};

/* Members: slots of a head word (as in tables) and the action's data. */
struct profile {
    uint64_t *slots;
    bool *in_use;
    uint32_t stride, capacity, group_count;
    struct group *groups;
};

struct value_set {
    uint32_t words, count;
    uint64_t *values;
};

struct profile_spec {
    uint32_t max_size, data_words;
};

struct profile *profile_create(const struct profile_spec *spec);
void profile_destroy(struct profile *profile);
int64_t profile_add_member(struct profile *profile, const uint64_t *head_and_data);
void profile_set_member(struct profile *profile, uint32_t member, const uint64_t *head_and_data);
void profile_delete_member(struct profile *profile, uint32_t member);
int64_t profile_add_group(struct profile *profile);
int profile_set_group(struct profile *profile, uint32_t group, const uint32_t *members,
                      uint32_t count);
void profile_delete_group(struct profile *profile, uint32_t group);

/* The member that an entry leads to; `hash` chooses in a group. An empty group, or a member that is
 * gone: NULL. */
ALWAYS_INLINE uint64_t *profile_resolve(const struct profile *profile, const uint64_t *slot,
                                        uint64_t hash)
{
    uint32_t number = (uint32_t)slot[0];
    if ((slot[0] >> 32 & 3) == ENTRY_GROUP) {
        if (number >= profile->group_count || !profile->groups[number].count)
            return NULL;
        number = profile->groups[number].members[hash % profile->groups[number].count];
    }
    if (number >= profile->capacity || !profile->in_use[number])
        return NULL;
    return profile->slots + (size_t)number * profile->stride;
}

int value_set_put(struct value_set *set, const uint64_t *words, uint32_t count);
bool value_set_contains(const struct value_set *set, const uint64_t *key, const uint64_t *mask);

#endif
