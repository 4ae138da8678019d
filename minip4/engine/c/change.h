/* Changes of what packets read beside tables' entries: bytes that take the place of others. */
#ifndef MINIP4_CHANGE_H
#define MINIP4_CHANGE_H

#include <stddef.h>

#include "engine.h"

/* Where: so many bytes into the memory that a pointer leads to (which may move before a batch is in
 * force). */
struct place {
    void *pointer; /* its address */
    size_t offset;
};

enum change_flags {
    CHANGE_OWNS = 1,  /* the bytes begin with a pointer from malloc(): the replaced memory is freed */
    CHANGE_UNSEEN = 2 /* not visible to packets: it need not be part of a batch's atomic step */
};

/* Puts `size` bytes, `count` times in a row, in place: now, or as part of the batch under way. Returns 0
 * or TABLE_NO_MEMORY, and then what the bytes own stays the caller's. */
int change_put(struct engine *e, struct place place, const void *bytes, uint32_t size, uint32_t count,
               unsigned flags);
/* Puts the batch's changes in place, with the lock held; returns how many words they are. */
uint64_t change_commit(struct engine *e);
/* Afterwards: the unseen ones, and frees what was replaced. */
void change_finish(struct engine *e);
void change_abort(struct engine *e);

#endif
