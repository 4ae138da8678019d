/* Memory for data that packets access. The memory is aligned to cache lines. It is on huge pages if
 * the kernel has any: small pages of a thousand switches would exceed the TLB. Thread-safe. */
#ifndef MINIP4_MEMORY_H
#define MINIP4_MEMORY_H

#include <stddef.h>

enum { CACHE_LINE = 64 };

/* Allocate zeroed memory, aligned to a cache line. Returns NULL if out of memory. */
void *memory_take(size_t size);
/* Free memory; `size` is the size at allocation. NULL is ignored. */
void memory_give(void *start, size_t size);
/* Resize memory like realloc(). New memory is zero. Returns NULL if out of memory; then `start` is
 * unchanged. */
void *memory_resize(void *start, size_t old_size, size_t size);

/* Allocate zeroed memory on separate pages. A page uses memory only if it is accessed. Returns NULL
 * if out of memory. */
void *memory_take_sparse(size_t size);
/* Like memory_take_sparse(), but on huge pages, for large and frequently used data. */
void *memory_reserve(size_t size);
/* Free memory of memory_take_sparse() or memory_reserve(). */
void memory_give_sparse(void *start, size_t size);

/* Free all allocated memory in one step. The memory must not be used afterwards. */
void memory_release(void);

#endif
