/* Memory for data that packets access: aligned to cache lines, and on huge pages if available, since the pages
 * of a thousand switches exceed a TLB. Thread-safe. */
#ifndef MINIP4_MEMORY_H
#define MINIP4_MEMORY_H

#include <stddef.h>

enum { CACHE_LINE = 64 };

/* Zeros, aligned to a cache line; NULL when out of memory. */
void *memory_take(size_t size);
/* `size` as allocated; NULL is ignored. */
void memory_give(void *start, size_t size);
/* Like realloc(): new memory is zero; NULL: out of memory, and `start` is unchanged. */
void *memory_resize(void *start, size_t old_size, size_t size);

/* Zeros on separate pages that use memory only if accessed; NULL when out of memory. */
void *memory_take_sparse(size_t size);
/* The same for large and frequently used data: on huge pages. */
void *memory_reserve(size_t size);
/* Frees either kind. */
void memory_give_sparse(void *start, size_t size);

/* Frees all allocated memory in one step; it must not be used afterwards. */
void memory_release(void);

#endif
