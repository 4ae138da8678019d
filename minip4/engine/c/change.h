/* Changes of data that packets read, except table entries: bytes that replace other bytes. */
#ifndef MINIP4_CHANGE_H
#define MINIP4_CHANGE_H

#include <stddef.h>

#include "engine.h"

/* The location: an offset in the memory of a pointer (which may change before a batch is in force). */
struct place {
    void *pointer; /* its address */
    size_t offset;
};

enum change_flags {
    CHANGE_OWNS = 1,  /* the bytes begin with a pointer from malloc(): the replaced memory is freed */
    CHANGE_UNSEEN = 2 /* not visible to packets: it need not be part of a batch's atomic step */
};

/* Writes `size` bytes `count` times in sequence: now, or as part of the current batch. Returns 0, or
 * TABLE_NO_MEMORY; then the caller keeps ownership. */
int change_put(struct engine *e, struct place place, const void *bytes, uint32_t size, uint32_t count,
               unsigned flags);
/* Applies the changes of the batch, with the lock held; returns their number of words. */
uint64_t change_commit(struct engine *e);
/* Afterwards: applies the unseen changes and frees replaced memory. */
void change_finish(struct engine *e);
void change_abort(struct engine *e);

#endif
