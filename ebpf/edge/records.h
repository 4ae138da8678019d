/* The records of flows in a host, per block. They have the same values as the registers and
 * counters in p4src/ampm/. The lock of a flow is taken while its records are written or read. So a
 * reader sees consistent values. */
#ifndef RECORDS_H
#define RECORDS_H

#include "watch_list.h"

#define SAMPLES 8 /* maximum number of samples per block */
#define CLOCK_MASK ((1ULL << 48) - 1)

struct block_record {
    __u64 block_us;
    __u64 packets;
    /* sum of times since the start of the block; signed, because a clock may be slow */
    __u64 sum_us;
    __u64 first_us;
};

struct pulse_record {
    __u64 block_us;
    __u64 pulses;
    __u64 pulse_us;
    __u64 packets; /* packets of the flow up to the first pulse (included) */
};

struct sample_record {
    __u64 block_us;
    __u64 samples;
    __u64 sample_us;
    __u64 hash;
};

struct cell { /* Records of the blocks of one colour. */
    __u64 packets;
    __u64 bytes;
    struct block_record block;
    struct pulse_record pulse;
    struct sample_record samples[SAMPLES];
};

struct flow_records {
    struct bpf_spin_lock lock;
    __u64 latch;   /* start time of the block of the latest pulse, plus 1 */
    __u64 running; /* packets of the flow in all blocks together */
    struct cell cells[2];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_FLOWS);
    __type(key, __u32);
    __type(value, struct flow_records);
} records SEC(".maps");

struct watch { /* the fields have the same meaning as in p4src/ampm/watch.p4 */
    __u64 now_us;
    __u64 block_us;
    __u32 packets; /* number of packets on the wire; more than 1 if packets are merged (GSO, GRO) */
    __u32 bytes;
    __u32 hash;
    __u8 methods;
    __u8 colour;
    bool is_first;
    bool in_window; /* a pulse may be sent now */
    bool is_pulse;
    bool is_sample;
};

static __always_inline void count_block(struct block_record *record, const struct watch *watch)
{
    bool is_new = !record->packets || record->block_us != watch->block_us;
    __s64 since_us = (__s64)((watch->now_us - watch->block_us) << 16) >> 16;

    record->block_us = watch->block_us;
    record->packets = (is_new ? 0 : record->packets) + watch->packets;
    record->sum_us = (is_new ? 0 : record->sum_us) + watch->packets * since_us;
    if (is_new)
        record->first_us = watch->now_us;
}

static __always_inline void count_pulse(struct pulse_record *record, const struct watch *watch,
                                        __u64 running)
{
    bool is_new = !record->pulses || record->block_us != watch->block_us;

    record->block_us = watch->block_us;
    record->pulses = (is_new ? 0 : record->pulses) + watch->packets;
    if (is_new) {
        record->pulse_us = watch->now_us;
        record->packets = running;
    }
}

static __always_inline void count_sample(struct sample_record *record, const struct watch *watch)
{
    bool is_new = !record->samples || record->block_us != watch->block_us;

    record->block_us = watch->block_us;
    record->samples = (is_new ? 0 : record->samples) + watch->packets;
    if (is_new) {
        record->sample_us = watch->now_us;
        record->hash = watch->hash;
    }
}

/* Count a packet. The first measuring point also selects the pulse. Because of the spin lock, only
 * one packet per block becomes the pulse. */
static __always_inline void count(struct flow_records *flow, struct watch *watch)
{
    struct cell *cell = &flow->cells[watch->colour & 1];

    bpf_spin_lock(&flow->lock);
    if (watch->in_window) {
        watch->is_pulse = flow->latch != watch->block_us + 1;
        flow->latch = watch->block_us + 1; /* plus 1, because 0 means that there was no pulse yet */
    }
    cell->packets += watch->packets;
    cell->bytes += watch->bytes;
    flow->running += watch->packets;
    count_block(&cell->block, watch);
    if (watch->is_pulse)
        count_pulse(&cell->pulse, watch, flow->running);
    if (watch->is_sample)
        count_sample(&cell->samples[watch->hash >> 29], watch);
    bpf_spin_unlock(&flow->lock);
}

#endif
