/* The transmit side of a nic: sendmmsg() sends single frames, train.c sends trains. */
#include "nic.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <string.h>

#include "ports_internal.h"

enum { MAX_TRIES = 4, RETRY_NS = 50000, PROBE_TRAINS = 64 };

void nic_transmit(struct nic *nic, struct packet *packet, struct packet_pool *pool)
{
    if (nic->queued == NIC_BATCH)
        nic_flush(nic, pool);
    nic->packets[nic->queued] = packet;
    nic->parts[nic->queued] = (struct iovec){packet->data, packet->length};
    nic->queued++;
}

static void count_error(struct nic *nic, int error, unsigned frames)
{
    if (error == ENOBUFS || error == EAGAIN) {
        nic->counters.transmit_kernel_drops += frames;
        nic->accepted_length = 0;
        return;
    }
    nic->counters.transmit_errors += frames;
    if (error == ENETDOWN || error == ENXIO || error == ENODEV) {
        nic_tell_down(nic, error);
    } else if (!nic->reported_not_sent) {
        nic_tell(nic, error == EMSGSIZE ? "frames longer than the interface's MTU are lost"
                                    : strerror(error));
        nic->reported_not_sent = true;
    }
}

static void count_sent(struct nic *nic, unsigned first, unsigned end)
{
    nic->down = false;
    nic->counters.transmitted_packets += end - first;
    for (unsigned i = first; i < end; i++)
        nic->counters.transmitted_bytes += nic->parts[i].iov_len;
}

/* Pause until the kernel may have room again. Returns false after too many pauses. */
static bool try_again(struct nic *nic, unsigned *tries)
{
    if (*tries == MAX_TRIES)
        return false;
    (*tries)++;
    nic->counters.transmit_retries++;
    nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    return true;
}

/* Remember the length of the longest accepted frame. */
static void note_accepted(struct nic *nic, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        if (nic->packets[i]->length > nic->accepted_length)
            nic->accepted_length = nic->packets[i]->length;
}

static void send_frames(struct nic *nic, unsigned first, unsigned end)
{
    unsigned done = first, tries = 0; /* at most MAX_TRIES between two successful calls */
    while (done < end) {
        int sent = sendmmsg(nic->fd, nic->messages + done, end - done, MSG_DONTWAIT);
        if (sent > 0) {
            count_sent(nic, done, done + (unsigned)sent);
            note_accepted(nic, done, done + (unsigned)sent);
            done += (unsigned)sent;
            tries = 0;
        } else if (errno != EINTR &&
                   ((errno != ENOBUFS && errno != EAGAIN) || !try_again(nic, &tries))) {
            count_error(nic, errno, 1);
            done++;
        }
    }
}

/* If the peer drops frames of a train, the kernel reports success, and they count as sent. Therefore
 * single frames are sent from time to time (accepted_length). After ENOBUFS, the kernel may have
 * sent some frames. So the train is not retried, and all its frames count as lost. After any other
 * error, the kernel has sent no frame, and sending the frames one by one shows the cause. */
static void send_train(struct nic *nic, unsigned first, unsigned end)
{
    int error;
    unsigned tries = 0;
    do
        error = trains_send(nic->trains, nic->packets + first, end - first);
    while (error == EINTR || (error == EAGAIN && try_again(nic, &tries)));
    if (!error) {
        count_sent(nic, first, end);
        nic->counters.transmitted_in_trains += end - first;
        if (++nic->trains_since_probe >= PROBE_TRAINS)
            nic->accepted_length = nic->trains_since_probe = 0;
    } else if (error == ENOBUFS) {
        count_error(nic, error, end - first);
    } else {
        send_frames(nic, first, end);
    }
}

/* Send all queued frames through the memory link. They get the present wall-clock time, because the
 * kernel's timestamps use this clock, too. */
static void send_to_memory(struct nic *nic)
{
    uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    memory_end_begin(nic->memory);
    for (unsigned at = 0; at < nic->queued; at++) {
        const struct packet *packet = nic->packets[at];
        /* the kernel rejects frames of these lengths, too */
        if (packet->length < ETH_HLEN || packet->length > PACKET_MAX_FRAME)
            count_error(nic, packet->length < ETH_HLEN ? EINVAL : EMSGSIZE, 1);
        else if (memory_end_send(nic->memory, packet->data, packet->length, now_ns))
            count_sent(nic, at, at + 1);
        else
            count_error(nic, ENOBUFS, 1);
    }
    memory_end_sent(nic->memory);
}

static void send_queued(struct nic *nic)
{
    if (nic->memory) {
        if (nic->queued)
            send_to_memory(nic);
        return;
    }
    unsigned first = 0; /* first frame of those to be sent singly */
    for (unsigned at = 0, length; at < nic->queued; at += length) {
        bool is_accepted = nic->packets[at]->length <= nic->accepted_length;
        length = is_accepted ? trains_length(nic->trains, nic->packets + at, nic->queued - at) : 1;
        if (length == 1)
            continue;
        send_frames(nic, first, at);
        send_train(nic, at, at + length);
        first = at + length;
    }
    send_frames(nic, first, nic->queued);
}

void nic_capture(struct nic *nic, struct capture *sending, struct capture *sent)
{
    nic->sending = sending;
    nic->sent = sent;
}

static void send_and_capture(struct nic *nic)
{
    uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    send_queued(nic);
    uint64_t ended_ns = clock_ns(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < nic->queued; i++) {
        const struct packet *packet = nic->packets[i];
        capture_frame(nic->sending, began_ns, packet->data, packet->length);
        capture_frame(nic->sent, ended_ns, packet->data, packet->length);
    }
}

void nic_flush(struct nic *nic, struct packet_pool *pool)
{
    if (!nic->sent)
        send_queued(nic);
    else if (nic->queued)
        send_and_capture(nic);
    for (unsigned i = 0; i < nic->queued; i++)
        packet_give(pool, nic->packets[i]);
    nic->queued = 0;
}
