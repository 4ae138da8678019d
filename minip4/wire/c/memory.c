/* Memory in size classes. Regions on huge pages are used from their start; freed blocks are kept in
 * the list of their class. */
#define _GNU_SOURCE
#include "memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
/* size of address space; only accessed pages use memory */
#define REGION (32 * HUGE_PAGE)
/* maximum size of a block in a region; larger ones come from malloc() */
#define LARGEST (2 * HUGE_PAGE)

/* Up to 2^6 cache lines, there is one class per number of cache lines. From there up to 2^16 cache
 * lines, there are STEPS classes per power of two. */
enum { FINE = 64, STEPS = 4, CLASSES = FINE + STEPS * 10 };

struct given {
    struct given *next;
};

struct region {
    struct region *next;
    void *start;
};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *fresh, *fresh_end;
static struct given *given[CLASSES];
static struct region *regions;

/* Return the class of a size, and round the size up to that of the blocks in this class. */
static unsigned class_of(size_t size, size_t *rounded)
{
    size_t lines = size ? (size + CACHE_LINE - 1) / CACHE_LINE : 1;
    if (lines <= FINE) {
        *rounded = lines * CACHE_LINE;
        return (unsigned)lines - 1;
    }
    unsigned power = 63u - (unsigned)__builtin_clzll(lines - 1); /* 2^power < lines <= 2^(power+1) */
    size_t step = ((size_t)1 << power) / STEPS;
    size_t steps = (lines - ((size_t)1 << power) + step - 1) / step;
    *rounded = (((size_t)1 << power) + steps * step) * CACHE_LINE;
    return FINE + (power - 6) * STEPS + (unsigned)steps - 1;
}

/* Ask for huge pages. Small pages are used on kernels without huge pages, and on macOS. */
static void use_huge_pages(void *start, size_t size)
{
#ifdef MADV_HUGEPAGE
    madvise(start, size, MADV_HUGEPAGE);
#else
    (void)start;
    (void)size;
#endif
}

static void *from_system(size_t size)
{
    size_t rounded = (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    void *start = aligned_alloc(CACHE_LINE, rounded ? rounded : CACHE_LINE);
    return start ? memset(start, 0, rounded) : NULL;
}

#if defined(__SANITIZE_ADDRESS__) /* AddressSanitizer must see each block separately */
static const size_t largest = 0;
#else
static const size_t largest = LARGEST;
#endif

/* Return the start of the free part of a region. The rest of the previous region, less than
 * LARGEST, stays unused. */
static void *from_region(size_t size)
{
    if ((size_t)(fresh_end - fresh) < size) {
        struct region *region = malloc(sizeof *region);
        uint8_t *start = mmap(NULL, REGION + HUGE_PAGE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!region || start == MAP_FAILED) {
            free(region);
            return NULL;
        }
        *region = (struct region){regions, start};
        regions = region;
        fresh = (uint8_t *)(((uintptr_t)start + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
        fresh_end = fresh + REGION;
        use_huge_pages(fresh, REGION);
    }
    fresh += size;
    return fresh - size;
}

void *memory_take(size_t size)
{
    if (size > largest)
        return from_system(size);
    unsigned number = class_of(size, &size);
    pthread_mutex_lock(&turn);
    struct given *start = given[number];
    if (start)
        given[number] = start->next;
    void *taken = start ? start : from_region(size);
    pthread_mutex_unlock(&turn);
    return start ? memset(start, 0, size) : taken;
}

void memory_give(void *start, size_t size)
{
    if (!start || size > largest) {
        free(start);
        return;
    }
    struct given *block = start;
    unsigned number = class_of(size, &size);
    pthread_mutex_lock(&turn);
    block->next = given[number];
    given[number] = block;
    pthread_mutex_unlock(&turn);
}

void *memory_resize(void *start, size_t old_size, size_t size)
{
    void *moved = memory_take(size);
    if (!moved)
        return NULL;
    if (start)
        memcpy(moved, start, old_size < size ? old_size : size);
    memory_give(start, old_size);
    return moved;
}

/* calloc() would clear and thereby touch recycled memory. */
void *memory_take_sparse(size_t size)
{
    void *start = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

void *memory_reserve(size_t size)
{
    void *start = memory_take_sparse(size);
    if (start)
        use_huge_pages(start, size);
    return start;
}

void memory_give_sparse(void *start, size_t size)
{
    if (start)
        munmap(start, size);
}

void memory_release(void)
{
    for (struct region *region = regions, *next; region; region = next) {
        next = region->next;
        munmap(region->start, REGION + HUGE_PAGE);
        free(region);
    }
    regions = NULL;
    fresh = fresh_end = NULL;
    memset(given, 0, sizeof given);
}
