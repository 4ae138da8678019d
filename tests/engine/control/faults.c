/* Adds entries to a ternary table, whose memory is reserved. Prints the largest number of page
 * faults while one entry was added. Packets wait while the sets of the table are written. */
#include <stdio.h>
#include <sys/resource.h>

#include "table.h"

/* Each set has four pages. The last set is written long after the table grew. */
enum { ENTRIES = 100000 };

static const struct table_spec spec = {
    .kind = TABLE_TERNARY, .key_words = 1, .data_words = 1, .max_size = ENTRIES,
    .default_data = (const uint64_t[]){0},
};

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

int main(void)
{
    const uint64_t key = 0, mask = 0xff, words[2] = {0};
    struct table table = {0};
    struct lock lock = {0};
    long most = 0;
    lock_create(&lock);
    if (!table_create(&table, &spec, &lock))
        return 2;
    for (int32_t i = 0; i < ENTRIES; i++) {
        uint32_t capacity = table.capacity;
        long before = faults();
        if (table_add(&table, &key, &mask, 0, i + 1, words, 0) < 0)
            return 2;
        long faulted = faults() - before;
        if (capacity == table.capacity && faulted > most)
            most = faulted;
    }
    printf("%ld", most);
    table_destroy(&table);
    lock_destroy(&lock);
    return 0;
}
