/* Makes changes immediately, in a batch, and in a batch that is aborted. Some of the changes own
 * memory. Prints a line with the bytes at each of four times: before the batch is committed, after
 * it is committed, after it is finished, and after the aborted batch. The last line is the number
 * of words for which packets waited. Sanitizers report double frees and leaks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "change.h"
#include "engine_internal.h"

static struct engine engine, *e = &engine;
static uint8_t cells[12];
static char *text;

static void put(size_t offset, uint8_t value, uint32_t count, unsigned flags)
{
    static uint8_t *all = cells;
    if (change_put(e, (struct place){&all, offset}, &value, 1, count, flags))
        abort();
}

static void put_text(const char *what)
{
    static char **all = &text;
    char *copy = strdup(what);
    if (change_put(e, (struct place){&all, 0}, &copy, sizeof copy, 1, CHANGE_OWNS))
        abort();
}

static void show(void)
{
    for (size_t i = 0; i < sizeof cells; i++)
        printf("%u", cells[i]);
    printf(" %s\n", text);
}

static void stage(void)
{
    e->lock.in_batch = true;
    put(0, 3, 1, CHANGE_UNSEEN);
    put(1, 4, 9, 0);
    put(2, 5, 1, 0);
    put_text("staged, and replaced");
    put_text("staged");
    e->lock.in_batch = false;
}

int main(void)
{
    lock_create(&e->lock);
    put(1, 1, 10, 0);
    put(3, 2, 1, CHANGE_UNSEEN);
    put_text("first");
    put_text("second");
    stage();
    show();
    uint64_t words = change_commit(e);
    show();
    change_finish(e);
    words += change_commit(e); /* the next batch is empty */
    show();
    stage();
    change_abort(e);
    words += change_commit(e);
    show();
    printf("%u\n", (unsigned)words);
    free(text);
    lock_destroy(&e->lock);
    return 0;
}
