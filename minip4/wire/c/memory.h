/* Memory for what packets touch: in cache lines of its own, and on huge pages where the kernel has
 * some, since the pages of a thousand switches are more than a TLB knows. Thread-safe. */
#ifndef MINIP4_MEMORY_H
#define MINIP4_MEMORY_H

#include <stddef.h>

enum { CACHE_LINE = 64 };

/* Zeros, aligned to a cache line; NULL when out of memory. */
void *memory_take(size_t size);
/* `size` as it was asked for; NULL is ignored. */
void memory_give(void *start, size_t size);
/* Like realloc(): what is new is zero; NULL: out of memory, and `start` is as it was. */
void *memory_resize(void *start, size_t old_size, size_t size);

/* Zeros on pages of their own, of which those that are touched cost memory; NULL when it is short. */
void *memory_take_sparse(size_t size);
/* The same for what will be large and much used: on huge pages. */
void *memory_reserve(size_t size);
/* Gives back either. */
void memory_give_sparse(void *start, size_t size);

/* Frees all allocated memory in one step; it must not be used afterwards. */
void memory_release(void);

#endif
