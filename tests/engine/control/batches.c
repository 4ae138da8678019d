/* Looks up packets in a table at each step of a batch, for each kind of table. Packets must see
 * the old entries before the atomic step of the batch, and after an abort. From the atomic step
 * on, they must see the new entries. Prints how often a packet saw another entry. */
#include <stdio.h>

#include "program.h"

enum { ENTRIES = 3000, STEPS = 5 };

static uint32_t kind;
static struct table table, *t = &table;
static struct lock lock;
static unsigned wrong;

static struct table_spec spec = {
    .key_words = 1, .data_words = 1, .max_size = 2 * ENTRIES, .has_counters = true,
    .lpm_width = 32, .default_data = (const uint64_t[]){0, 0},
};

static uint64_t key_of(uint64_t number)
{
    return number << 8;
}

static uint64_t action_of(uint64_t number)
{
    uint64_t key = key_of(number) | (kind == TABLE_EXACT ? 0 : 7);
    const uint64_t *slot = kind == TABLE_EXACT ? table_find_exact(t, &key, 1, 1)
                           : kind == TABLE_LPM ? table_find_lpm(t, &key, 1, 1, key << 32)
                                               : table_find_ternary(t, &key);
    const uint64_t *entry = slot ? table_entry(t, slot) : t->default_slot;
    return entry[0] << 32 >> 32 == entry[1] ? entry[1] : 99; /* 99: the entry is torn */
}

static int64_t add(uint64_t number, uint64_t action)
{
    const uint64_t key = key_of(number), mask = UINT64_C(0xffffff00), words[] = {action, action};
    return table_add(t, &key, &mask, kind == TABLE_LPM ? 24 : 0, 1, words, 0);
}

static int64_t handle_of(uint64_t number)
{
    const uint64_t key = key_of(number), mask = UINT64_C(0xffffff00);
    return table_find(t, &key, &mask, kind == TABLE_LPM ? 24 : 0, kind == TABLE_TERNARY);
}

/* Counts entries that differ from the expected ones. Of four entries, the batch leaves one
 * unchanged, modifies one, deletes one, and replaces one. It also adds ENTRIES new entries. */
static void check(bool is_in_force)
{
    for (uint64_t i = 0; i < ENTRIES; i++) {
        const uint64_t after[] = {1, 2, 0, 3};
        wrong += action_of(i) != (is_in_force ? after[i % 4] : 1);
        wrong += action_of(ENTRIES + i) != (is_in_force ? 4 : 0);
    }
}

static void stage(void)
{
    const uint64_t changed[] = {2, 2};
    lock.in_batch = true;
    for (uint64_t i = 0; i < ENTRIES; i++) {
        if (i % 4 == 1)
            wrong += table_modify(t, handle_of(i), changed) != 0;
        if (i % 4 > 1)
            wrong += table_delete(t, handle_of(i)) != 0;
        if (i % 4 == 3)
            wrong += add(i, 3) < 0;
        wrong += add(ENTRIES + i, 4) < 0;
        if (i % 500 == 0)
            check(false);
    }
    check(false);
    lock.in_batch = false;
}

static uint64_t max_words(void)
{
    uint64_t most = 0;
    for (int i = 0; i < HOLD_KINDS; i++)
        most = lock.holds[i].max_words > most ? lock.holds[i].max_words : most;
    return most;
}

int main(void)
{
    for (kind = TABLE_EXACT; kind <= TABLE_TERNARY; kind++) {
        spec.kind = kind;
        lock_create(&lock);
        if (!table_create(t, &spec, &lock))
            return 2;
        for (uint64_t i = 0; i < ENTRIES; i++)
            wrong += add(i, 1) < 0;
        for (int round = 0; round < STEPS; round++) {
            stage();
            table_abort(t);
            check(false);
        }
        stage();
        table_before_commit(t);
        check(false);
        table_commit(t);
        check(true);
        table_after_commit(t);
        check(true);
        wrong += t->used != ENTRIES / 4 * 3 + ENTRIES;
        wrong += max_words() > HOLD_WORDS;
        table_destroy(t);
        lock_destroy(&lock);
    }
    printf("%u", wrong);
    return 0;
}
