/* What the path of a packet (pipeline.c) and the generated code of a TNA program share. */
#ifndef MINIP4_TNA_H
#define MINIP4_TNA_H

#include "filters.h"
#include "memory.h"
#include "packet.h"
#include "program.h"

enum {
    TNA_PORTS_OF_PIPE = 128,
    TNA_PORT_OF_PIPE = 0x7f, /* the bits of a port number that are not its pipe */
    TNA_PORTS_OF_PARSER = 4, /* of each pipe */
    TNA_ROOM = 128,         /* bytes of the longest metadata or header that precede a frame */
    TNA_NO_PORT = 511,      /* ucast_egress_port of a packet without a unicast copy */
    TNA_MIRROR_BYTES = 64,  /* longest header of a mirrored packet */
    TNA_RESUBMIT_BYTES = 8
};

/* bits of drop_ctl */
enum { TNA_DROPS = 1, TNA_NO_CPU_COPY = 2, TNA_NO_MIRROR = 4 };

/* The requests of a packet to the traffic manager, and its state there. It follows struct phv_start
 * in the parsed packet. */
struct tna {
    uint64_t enqueued_ns;
    uint32_t enqueued_depth;
    uint32_t mirror_session; /* with SESSION_SET, or 0 for no mirrored packet */
    uint16_t ucast_port, mcast_a, mcast_b, rid;
    uint16_t prefix_bytes;   /* bytes of metadata that the engine put before the frame ... */
    uint16_t metadata_bytes; /* ... of which these are the port metadata, in ingress */
    uint8_t qid, cos, drop_ctl, mirror_bytes, resubmit_bytes;
    bool bypasses_egress, goes_to_cpu, resubmits, is_rejected, is_first, mirrors_outgoing;
    uint8_t resubmit_data[TNA_RESUBMIT_BYTES], mirror_data[TNA_MIRROR_BYTES];
    /* The direct objects of the entry whose action runs. After a table miss, the first two are
     * NULL, and the cells of registers are those of the default entry. */
    struct cell *counter;
    struct meter *meter;
    uint64_t *cells;
};

/* Return the program's time in nanoseconds. */
ALWAYS_INLINE uint64_t tna_now_ns(const struct context *c)
{
    return low_bits(c->now_us * 1000 + c->now_ns % 1000, 48);
}

/* Return the arrival time of the current packet in nanoseconds. */
ALWAYS_INLINE uint64_t tna_arrived_ns(const struct context *c)
{
    return low_bits(tna_now_ns(c) - c->waited_us * UINT64_C(1000), 48);
}

/* Count the current packet without `adjustment` bytes; a packet never has less than 0 bytes. */
ALWAYS_INLINE void tna_count(struct cell *cell, uint64_t bytes, uint64_t adjustment)
{
    cell->packets++;
    cell->bytes += adjustment < bytes ? bytes - adjustment : 0;
}

/* Put zeros before the frame, and return their address. */
ALWAYS_INLINE uint8_t *tna_prepend(struct packet *packet, uint32_t bytes)
{
    packet->data -= bytes;
    packet->length += bytes;
    memset(packet->data, 0, bytes);
    return packet->data;
}

#endif
