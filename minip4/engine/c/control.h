/* The control plane's view of an engine: what Python calls. The caller holds engine_lock(). Errors
 * are enum table_error, negative. */
#ifndef MINIP4_CONTROL_H
#define MINIP4_CONTROL_H

#include "engine.h"
#include "program.h"

/* Tables by number; see table.h. */
int64_t engine_table_add(struct engine *e, uint32_t table, const uint64_t *key,
                         const uint64_t *mask, uint32_t prefix, int32_t priority,
                         const uint64_t *head_and_data, uint64_t now_ns);
int64_t engine_table_find(struct engine *e, uint32_t table, const uint64_t *key,
                          const uint64_t *mask, uint32_t prefix, int32_t priority);
int engine_table_modify(struct engine *e, uint32_t table, int64_t handle,
                        const uint64_t *head_and_data);
int engine_table_delete(struct engine *e, uint32_t table, int64_t handle);
int64_t engine_table_next(struct engine *e, uint32_t table, uint32_t from);
uint32_t engine_table_stride(struct engine *e, uint32_t table);
/* The entry's slot, to be read or (its counters) written at once; *priority is set. */
uint64_t *engine_table_slot(struct engine *e, uint32_t table, int64_t handle, int32_t *priority);
uint64_t *engine_table_default(struct engine *e, uint32_t table);
void engine_table_set_default(struct engine *e, uint32_t table, const uint64_t *head_and_data);
void engine_table_reset_default(struct engine *e, uint32_t table);

/* Cells of packets and bytes; words of a register. */
uint64_t *engine_counter_cells(struct engine *e, uint32_t counter);
uint64_t *engine_register_words(struct engine *e, uint32_t number);

/* Rates in units (bytes or packets) a second, bursts in units; read returns false for a meter that
 * was not configured. In `direct` a meter belongs to the entry `index` of the table `number`. */
struct meter_rates {
    uint64_t committed_rate, committed_burst, peak_rate, peak_burst;
};
int engine_meter_set(struct engine *e, bool direct, uint32_t number, int64_t index,
                     const struct meter_rates *rates);
int engine_meter_get(struct engine *e, bool direct, uint32_t number, int64_t index,
                     struct meter_rates *rates);
/* Packets and bytes that were green, yellow, red: six words; or NULL. */
uint64_t *engine_meter_counts(struct engine *e, bool direct, uint32_t number, int64_t index);

int64_t engine_member_add(struct engine *e, uint32_t profile, const uint64_t *head_and_data);
int engine_member_modify(struct engine *e, uint32_t profile, uint32_t member,
                         const uint64_t *head_and_data);
int engine_member_delete(struct engine *e, uint32_t profile, uint32_t member);
int64_t engine_group_add(struct engine *e, uint32_t profile);
int engine_group_set(struct engine *e, uint32_t profile, uint32_t group, const uint32_t *members,
                     uint32_t count);
int engine_group_delete(struct engine *e, uint32_t profile, uint32_t group);

int engine_value_set(struct engine *e, uint32_t value_set, const uint64_t *words, uint32_t count);

/* A multicast group, or with `is_session` a mirroring session; replicas are (port, rid) pairs. */
int engine_replicas_set(struct engine *e, bool is_session, uint32_t number,
                        const uint16_t *replicas, uint32_t count, uint32_t truncate_to);
/* How many replicas it has (TABLE_NOT_FOUND: there is none); fills up to `room` of them. */
int64_t engine_replicas_get(struct engine *e, bool is_session, uint32_t number, uint16_t *replicas,
                            uint32_t room, uint32_t *truncate_to);
int engine_replicas_delete(struct engine *e, bool is_session, uint32_t number);

/* Takes the trace's events out (see trace.h; 65,536 words are all there can be), and tells how many
 * packets and how many events were left out since the beginning. In builds with MINIP4_TRACE. */
uint32_t engine_trace_read(struct engine *e, uint64_t *words, uint32_t room, uint64_t left_out[2]);

bool engine_digest_next(struct engine *e, struct digest_sample *out);
void engine_crc_custom(struct engine *e, uint32_t which, const struct crc_custom *settings);

/* For tests and benchmarks, in place of a driver: frames that leave are kept, and taken one by one.
 * A frame longer than `room` is cut. */
void engine_collect(struct engine *e);
bool engine_inject(struct engine *e, uint16_t port, const uint8_t *frame, uint32_t length,
                   uint64_t now_ns);
int64_t engine_take(struct engine *e, uint16_t *port, uint8_t *frame, uint32_t room);
/* Sends `count` frames of `length` bytes, that lie one after the other, `rounds` times; what leaves
 * goes back to the pool. */
void engine_repeat(struct engine *e, uint16_t port, const uint8_t *frames, uint32_t length,
                   uint32_t count, uint32_t rounds, uint64_t now_ns);

#endif
