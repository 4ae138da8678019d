/* A table whose first slot was used so often that its generation wraps around. */
#include <stdio.h>

#include "program.h"

static const struct table_spec spec = {
    .kind = TABLE_EXACT, .key_words = 1, .data_words = 1, .max_size = 4,
    .default_data = (const uint64_t[]){0},
};

int main(void)
{
    struct table table = {0}, *t = &table;
    const uint64_t key = 7, action[] = {1, 2};
    struct lock lock = {0};
    lock_create(&lock);
    if (!table_create(t, &spec, &lock))
        return 2;
    t->info[0].generation = INT32_MAX - 3;
    for (int round = 0; round < 4; round++) {
        int64_t handle = table_add(t, &key, NULL, 0, 0, action, 0);
        printf("%d", handle >= 0 && table_slot(t, handle) &&
                         table_find(t, &key, NULL, 0, 0) == handle &&
                         !table_modify(t, handle, action) && !table_delete(t, handle) &&
                         !table_slot(t, handle));
    }
    table_destroy(t);
    lock_destroy(&lock);
    return 0;
}
