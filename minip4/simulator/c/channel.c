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

static struct message *message_at(struct channel *channel, uint32_t number)
{
    return &channel->message[number & (CHANNEL_ROOM - 1)];
}

/* Prefetch the cache lines of a message with a short frame. */
static void fetch(struct message *message)
{
    __builtin_prefetch(message);
    __builtin_prefetch(message->frame);
}

/* Copy a frame into a message, with the fields of its packet that the receiver needs. */
static void pack(struct message *message, const struct packet *packet)
{
    message->arrival.packet = NULL;
    message->room = (uint32_t)(packet->data - packet->buffer);
    message->length = packet->length;
    message->source = packet->source;
    message->hops = packet->hops;
    memcpy(message->frame, packet->data, packet->length);
}

/* Create a packet from a message. Returns NULL if out of memory. */
static struct packet *unpack(const struct message *message, struct packet_pool *pool)
{
    struct packet *packet = packet_take(pool);
    if (!packet)
        return NULL;
    packet->data = packet->buffer + message->room;
    packet->length = message->length;
    packet->source = message->source;
    packet->hops = message->hops;
    memcpy(packet->data, message->frame, message->length);
    return packet;
}

void channel_send(struct channel *channel, struct packet_pool *pool, const struct arrival *arrival,
                  uint64_t due_ns)
{
    uint32_t sent = atomic_load_explicit(&channel->sent, memory_order_relaxed);
    struct message *message = message_at(channel, sent);
    if (message->spare)
        packet_give(pool, message->spare);
    message->spare = NULL;
    message->arrival = *arrival;
    message->due_ns = due_ns;
    if (arrival->packet->length <= MESSAGE_FRAME) {
        pack(message, arrival->packet);
        packet_give(pool, arrival->packet);
    }
    atomic_store_explicit(&channel->sent, sent + 1, memory_order_release);
}

bool channel_waits(const struct channel *channel)
{
    return atomic_load_explicit(&channel->sent, memory_order_acquire) !=
           atomic_load_explicit(&channel->received, memory_order_relaxed);
}

void partition_take_in(struct partition *p, const struct arrival *arrival, uint64_t due_ns)
{
    __builtin_prefetch(arrival->to);
    if (flights_add(&p->flights, arrival, due_ns))
        return;
    p->is_short = true;
    packet_give(p->pool, arrival->packet);
}

static void take_out(struct message *message, struct partition *p)
{
    struct arrival arrival = message->arrival;
    if (arrival.packet) {
        __builtin_prefetch(arrival.packet, 1);
        message->spare = packet_lend(p->pool);
    } else if (!(arrival.packet = unpack(message, p->pool))) {
        return; /* the partition has recorded that memory is short */
    } else {
        __builtin_prefetch(&p->trail[message->source]);
    }
    partition_take_in(p, &arrival, message->due_ns);
}

uint32_t channel_receive(struct channel *channel, struct partition *p)
{
    uint32_t sent = atomic_load_explicit(&channel->sent, memory_order_acquire);
    uint32_t received = atomic_load_explicit(&channel->received, memory_order_relaxed);
    for (uint32_t i = received; i != sent && i != received + MESSAGES_AHEAD; i++)
        fetch(message_at(channel, i));
    for (uint32_t i = received; i != sent; i++) {
        if (sent - i > MESSAGES_AHEAD)
            fetch(message_at(channel, i + MESSAGES_AHEAD));
        take_out(message_at(channel, i), p);
    }
    atomic_store_explicit(&channel->received, sent, memory_order_release);
    return sent - received;
}
