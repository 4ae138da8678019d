/* Changes of data that packets read, except table entries. A change replaces bytes by other
 * bytes. */
#ifndef MINIP4_CHANGE_H
#define MINIP4_CHANGE_H

#include <stddef.h>

#include "engine.h"

/* The location of a change: an offset in memory that a pointer refers to. The memory may move
 * before a batch takes effect. */
struct place {
    void *pointer; /* address of the pointer */
    size_t offset;
};

enum change_flags {
    /* the bytes start with a pointer from malloc(); a change frees the memory of the replaced
     * pointer */
    CHANGE_OWNS = 1,
    /* packets do not read the bytes, so the change need not be part of a batch's atomic step */
    CHANGE_UNSEEN = 2
};

/* Write `size` bytes `count` times in sequence, now or as part of the current batch. Returns 0, or
 * TABLE_NO_MEMORY; then the caller keeps ownership. */
int change_put(struct engine *e, struct place place, const void *bytes, uint32_t size, uint32_t count,
               unsigned flags);
/* Apply the changes of the batch, with the lock held. Returns the number of words. */
uint64_t change_commit(struct engine *e);
/* After change_commit(), apply the changes that packets do not see, and free replaced memory. */
void change_finish(struct engine *e);
void change_abort(struct engine *e);

#endif
