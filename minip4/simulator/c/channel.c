/* Channels: frames from one partition to another. */
#include "threads.h"

bool channel_is_full(struct channel *channel)
{
    uint32_t sent = atomic_load_explicit(&channel->sent, memory_order_relaxed);
    if (sent - channel->seen_received < CHANNEL_ROOM)
        return false;
    channel->seen_received = atomic_load_explicit(&channel->received, memory_order_acquire);
    return sent - channel->seen_received == CHANNEL_ROOM;
}

void channel_send(struct channel *channel, struct packet_pool *pool, const struct arrival *arrival,
                  uint64_t due_ns)
{
    uint32_t sent = atomic_load_explicit(&channel->sent, memory_order_relaxed);
    struct message *message = &channel->message[sent & (CHANNEL_ROOM - 1)];
    if (message->spare)
        packet_give(pool, message->spare);
    *message = (struct message){*arrival, due_ns, NULL};
    atomic_store_explicit(&channel->sent, sent + 1, memory_order_release);
}

bool channel_waits(const struct channel *channel)
{
    return atomic_load_explicit(&channel->sent, memory_order_acquire) !=
           atomic_load_explicit(&channel->received, memory_order_relaxed);
}

struct packet *partition_take_in(struct partition *p, const struct arrival *arrival, uint64_t due_ns)
{
    if (flights_add(&p->flights, arrival, due_ns))
        return packet_lend(p->pool);
    p->is_short = true;
    return arrival->packet;
}

uint32_t channel_receive(struct channel *channel, struct partition *p)
{
    uint32_t sent = atomic_load_explicit(&channel->sent, memory_order_acquire);
    uint32_t received = atomic_load_explicit(&channel->received, memory_order_relaxed);
    for (uint32_t i = received; i != sent; i++) {
        struct message *message = &channel->message[i & (CHANNEL_ROOM - 1)];
        __builtin_prefetch(message->arrival.packet, 1);
        message->spare = partition_take_in(p, &message->arrival, message->due_ns);
    }
    atomic_store_explicit(&channel->received, sent, memory_order_release);
    return sent - received;
}
