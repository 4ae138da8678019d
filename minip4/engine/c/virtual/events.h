/* The event queue: when each element of a virtual network is to be woken. */
#ifndef MINIP4_EVENTS_H
#define MINIP4_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Elements are numbered from 0; each has at most one time at which it is due. Of those due at the
 * same time the lowest number comes first: so the order depends on nothing but the network. */
struct events;

/* NULL when memory is short. */
struct events *events_create(void);
void events_destroy(struct events *events);
/* A new element, not due: its number, or UINT32_MAX when memory is short. */
uint32_t events_add(struct events *events);
/* UINT64_MAX: not due any more. */
void events_set(struct events *events, uint32_t element, uint64_t due_ns);
/* When the next element is due, and which it is; UINT64_MAX: none. */
uint64_t events_next(const struct events *events, uint32_t *element);

#endif
