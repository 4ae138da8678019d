/* The control-plane interface of an engine for Python. Only one thread at a time may call it. These
 * functions hold the engine's lock as shortly as possible. Errors are negative values of enum
 * table_error. */
#ifndef MINIP4_CONTROL_H
#define MINIP4_CONTROL_H

#include "engine.h"
#include "program.h"

/* Tables, by number; see table.h. */
int64_t engine_table_add(struct engine *e, uint32_t table, const uint64_t *key,
                         const uint64_t *mask, uint32_t prefix, int32_t priority,
                         const uint64_t *head_and_data, uint64_t now_ns);
int64_t engine_table_find(struct engine *e, uint32_t table, const uint64_t *key,
                          const uint64_t *mask, uint32_t prefix, int32_t priority);
int engine_table_modify(struct engine *e, uint32_t table, int64_t handle,
                        const uint64_t *head_and_data);
int engine_table_delete(struct engine *e, uint32_t table, int64_t handle);
uint32_t engine_table_used(struct engine *e, uint32_t table);
/* Return the number of words of a slot. */
uint32_t engine_table_stride(struct engine *e, uint32_t table);
uint32_t engine_table_copy(struct engine *e, uint32_t table, uint32_t *from, uint32_t room,
                           uint64_t *out);
bool engine_table_copy_one(struct engine *e, uint32_t table, int64_t handle, uint64_t *out);
int engine_table_set_timeout(struct engine *e, uint32_t table, int64_t handle, uint64_t timeout_ns);
/* Return the number of entries with an idle timeout. */
uint32_t engine_table_watched(struct engine *e, uint32_t table);
uint32_t engine_table_age(struct engine *e, uint32_t table, uint32_t *from, uint64_t now_ns,
                          uint32_t room, uint64_t *out);
/* Set the packets and bytes counted by an entry. */
int engine_table_set_count(struct engine *e, uint32_t table, int64_t handle, const uint64_t *cell);
/* Return the words of the default entry. The caller must not change them. */
const uint64_t *engine_table_default(struct engine *e, uint32_t table);
int engine_table_set_default(struct engine *e, uint32_t table, const uint64_t *head_and_data);
int engine_table_reset_default(struct engine *e, uint32_t table);

/* Start or end a batch. Packets see no write of the batch before commit, and all writes after
 * commit. Reads within a batch return the previous state, except for the keys of entries. Abort
 * discards all writes of the batch. */
void engine_batch_begin(struct engine *e);
void engine_batch_commit(struct engine *e);
void engine_batch_abort(struct engine *e);

/* Get the hold times of the lock by enum hold_kind; and how often packets waited for the lock, and
 * their longest wait. The values are since the start or the last reset. */
void engine_holds(struct engine *e, struct hold *out, bool forget);
void engine_packets_waited(struct engine *e, uint64_t out[2]);

/* Read or write the words of a counter (packets and bytes of each cell) or of a register. A read
 * returns all words at one point in time; a write sets `count` cells. */
enum array_kind { ARRAY_COUNTER, ARRAY_REGISTER };
void engine_array_read(struct engine *e, enum array_kind kind, uint32_t number, uint64_t first,
                       uint64_t words, uint64_t *out);
int engine_array_write(struct engine *e, enum array_kind kind, uint32_t number, uint64_t first,
                       uint32_t words, uint32_t count, const uint64_t *cell);

/* Rates are in units (bytes or packets) per second. Bursts are in units. NULL means no rates. If
 * `direct` is set, the meter belongs to entry `index` of table `number`. */
struct meter_rates {
    uint64_t committed_rate, committed_burst, peak_rate, peak_burst;
};
int engine_meter_set(struct engine *e, bool direct, uint32_t number, int64_t index,
                     const struct meter_rates *rates);
/* Set the numbers of green, yellow and red packets and bytes. */
int engine_meter_set_counts(struct engine *e, bool direct, uint32_t number, int64_t index,
                            const uint64_t *counts);
/* Get a meter. Returns 0 if the meter was not configured, else 1. */
int engine_meter_get(struct engine *e, bool direct, uint32_t number, int64_t index,
                     struct meter_rates *rates, uint64_t *counts);

int64_t engine_member_add(struct engine *e, uint32_t profile, const uint64_t *head_and_data);
int engine_member_modify(struct engine *e, uint32_t profile, uint32_t member,
                         const uint64_t *head_and_data);
int engine_member_delete(struct engine *e, uint32_t profile, uint32_t member);
int64_t engine_group_add(struct engine *e, uint32_t profile);
int engine_group_set(struct engine *e, uint32_t profile, uint32_t group, const uint32_t *members,
                     uint32_t count);
int engine_group_delete(struct engine *e, uint32_t profile, uint32_t group);

int engine_value_set(struct engine *e, uint32_t value_set, const uint64_t *words, uint32_t count);

/* Set the replicas, as pairs (port, rid), of a multicast group or, with `is_session`, of a
 * mirroring session. */
int engine_replicas_set(struct engine *e, bool is_session, uint32_t number,
                        const uint16_t *replicas, uint32_t count, uint32_t truncate_to);
int engine_replicas_delete(struct engine *e, bool is_session, uint32_t number);

/* Remove the events of the trace (see trace.h; at most 65,536 words). `left_out` is the number of
 * packets and events omitted since the start. Only in builds with MINIP4_TRACE. */
uint32_t engine_trace_read(struct engine *e, uint64_t *words, uint32_t room, uint64_t left_out[2]);

/* Remove up to `room` digests, the oldest first. */
uint32_t engine_digests_take(struct engine *e, uint32_t room, struct digest_sample *out);
int engine_crc_custom(struct engine *e, uint32_t which, const struct crc_custom *settings);

/* A driver for tests and benchmarks. It sets the first `ports` ports up and stores transmitted
 * frames, which the caller fetches one by one. A frame longer than `room` is truncated. */
void engine_collect(struct engine *e, uint16_t ports);
bool engine_inject(struct engine *e, uint16_t port, const uint8_t *frame, uint32_t length,
                   uint64_t now_ns);
int64_t engine_take(struct engine *e, uint16_t *port, uint8_t *frame, uint32_t room);
/* Receive `count` frames, `rounds` times. `frames` contains the concatenated frames, of `length`
 * bytes each. Transmitted frames return to the pool. */
void engine_repeat(struct engine *e, uint16_t port, const uint8_t *frames, uint32_t length,
                   uint32_t count, uint32_t rounds, uint64_t now_ns);

#endif
