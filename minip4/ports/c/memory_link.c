/* Each direction has a list of chunks. The sender fills the last chunk. The receiver takes all
 * chunks at once, reads them without the lock, and later returns them as spare chunks. While the
 * receiver is fast, few chunks are in use, and they stay in the cache. */
#include "memory_link.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_SIZE = 64 * 1024,
    MAX_CHUNKS = 256, /* about 10,000 frames of 1,500 bytes wait at most, as at an interface */
    ALIGNMENT = 16
};

struct record {
    uint64_t stamp_ns;
    uint32_t length; /* length of the frame that follows */
};

struct chunk {
    struct chunk *next;
    uint32_t used;
    _Alignas(ALIGNMENT) uint8_t data[CHUNK_SIZE];
};

struct direction {
    pthread_mutex_t lock;
    struct chunk *first, *last, *spare;
    unsigned chunks;       /* all chunks of the direction, also those of the receiver */
    atomic_bool has_chunk; /* `first` is not NULL */
    bool is_open;          /* a driver has the receiving end */
    bool is_new;           /* the sender has added frames since memory_end_begin() */
    struct task *reader;
};

struct memory_end {
    struct direction *in, *out;
    struct chunk *taken; /* the chunks that this end reads */
    uint32_t at;         /* position in the first of them */
    struct chunk *read;  /* chunks that this end has read, to be returned */
};

struct memory_link {
    struct direction direction[2]; /* index: end of the sender */
    struct memory_end end[2];
};

struct memory_link *memory_link_create(void)
{
    struct memory_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    for (unsigned i = 0; i < 2; i++) {
        pthread_mutex_init(&link->direction[i].lock, NULL);
        link->end[i].in = &link->direction[!i];
        link->end[i].out = &link->direction[i];
    }
    return link;
}

static void free_chunks(struct chunk *chunk)
{
    for (struct chunk *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
}

void memory_link_destroy(struct memory_link *link)
{
    for (unsigned i = 0; link && i < 2; i++) {
        free_chunks(link->direction[i].first);
        free_chunks(link->direction[i].spare);
        pthread_mutex_destroy(&link->direction[i].lock);
    }
    free(link);
}

struct memory_end *memory_end_open(struct memory_link *link, unsigned number)
{
    struct memory_end *end = &link->end[number];
    pthread_mutex_lock(&end->in->lock);
    bool was_open = end->in->is_open;
    end->in->is_open = true;
    pthread_mutex_unlock(&end->in->lock);
    if (!was_open)
        return end;
    errno = EBUSY;
    return NULL;
}

void memory_end_close(struct memory_end *end)
{
    if (!end)
        return;
    struct direction *in = end->in;
    pthread_mutex_lock(&in->lock);
    in->is_open = false;
    in->reader = NULL;
    free_chunks(in->first);
    free_chunks(in->spare);
    free_chunks(end->taken);
    free_chunks(end->read);
    in->first = in->last = in->spare = end->taken = end->read = NULL;
    in->chunks = end->at = 0;
    atomic_store(&in->has_chunk, false);
    pthread_mutex_unlock(&in->lock);
}

void memory_end_set_reader(struct memory_end *end, struct task *reader)
{
    pthread_mutex_lock(&end->in->lock);
    end->in->reader = reader;
    pthread_mutex_unlock(&end->in->lock);
}

/* Receiving */

static void end_chunk(struct memory_end *end)
{
    struct chunk *chunk = end->taken;
    end->taken = chunk->next;
    end->at = 0;
    chunk->next = end->read;
    end->read = chunk;
}

/* Take all chunks of the sender, and return those that were read. */
static void take_chunks(struct memory_end *end)
{
    struct direction *in = end->in;
    pthread_mutex_lock(&in->lock);
    for (struct chunk *chunk = end->read; chunk; chunk = end->read) {
        end->read = chunk->next;
        chunk->next = in->spare;
        in->spare = chunk;
    }
    end->taken = in->first;
    in->first = in->last = NULL;
    atomic_store_explicit(&in->has_chunk, false, memory_order_relaxed);
    pthread_mutex_unlock(&in->lock);
}

/* Return the next record, or NULL. */
static const struct record *next_record(struct memory_end *end)
{
    if (!end->taken) {
        if (!atomic_load_explicit(&end->in->has_chunk, memory_order_relaxed))
            return NULL;
        take_chunks(end);
    }
    return (const struct record *)(end->taken->data + end->at);
}

static uint32_t record_size(uint32_t length)
{
    uint32_t size = (uint32_t)sizeof(struct record) + length;
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

bool memory_end_peek(struct memory_end *end, uint64_t *stamp_ns)
{
    const struct record *record = next_record(end);
    *stamp_ns = record ? record->stamp_ns : UINT64_MAX;
    return record;
}

uint32_t memory_end_receive(struct memory_end *end, uint8_t *room)
{
    const struct record *record = next_record(end);
    uint32_t length = record->length;
    if (room)
        memcpy(room, record + 1, length);
    end->at += record_size(length);
    if (end->at == end->taken->used)
        end_chunk(end);
    return length;
}

static unsigned count_records(const struct chunk *chunk, uint32_t at)
{
    unsigned count = 0;
    for (; chunk; chunk = chunk->next, at = 0)
        for (; at < chunk->used; count++)
            at += record_size(((const struct record *)(chunk->data + at))->length);
    return count;
}

unsigned memory_end_unread(struct memory_end *end)
{
    pthread_mutex_lock(&end->in->lock);
    unsigned count = count_records(end->in->first, 0);
    pthread_mutex_unlock(&end->in->lock);
    return count + count_records(end->taken, end->at);
}

/* Sending */

void memory_end_begin(struct memory_end *end)
{
    pthread_mutex_lock(&end->out->lock);
}

/* Append an empty chunk. Returns false if there are too many, or if out of memory. */
static bool add_chunk(struct direction *out)
{
    struct chunk *chunk = out->spare;
    if (chunk) {
        out->spare = chunk->next;
    } else if (out->chunks == MAX_CHUNKS || !(chunk = malloc(sizeof *chunk))) {
        return false;
    } else {
        out->chunks++;
    }
    chunk->next = NULL;
    chunk->used = 0;
    *(out->last ? &out->last->next : &out->first) = chunk;
    out->last = chunk;
    return true;
}

bool memory_end_send(struct memory_end *end, const uint8_t *frame, uint32_t length,
                     uint64_t stamp_ns)
{
    struct direction *out = end->out;
    uint32_t size = record_size(length);
    if (!out->is_open)
        return true;
    if ((!out->last || out->last->used + size > CHUNK_SIZE) && !add_chunk(out))
        return false;
    struct record *record = (struct record *)(out->last->data + out->last->used);
    *record = (struct record){stamp_ns, length};
    memcpy(record + 1, frame, length);
    out->last->used += size;
    out->is_new = true;
    return true;
}

void memory_end_sent(struct memory_end *end)
{
    struct direction *out = end->out;
    if (out->is_new) {
        out->is_new = false;
        atomic_store_explicit(&out->has_chunk, true, memory_order_relaxed);
        if (out->reader)
            task_notify(out->reader);
    }
    pthread_mutex_unlock(&out->lock);
}
