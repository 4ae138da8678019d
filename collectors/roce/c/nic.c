/* Regions, queue pairs and completions of a responder, and processing of a frame. */
#include "nic_internal.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PARTITION = 0x7fff }; /* P_Key without its membership bit (IBTA, 10.9.1) */

static uint64_t power_of_2(uint64_t least)
{
    uint64_t power = 1;

    while (power < least)
        power *= 2;
    return power;
}

struct roce_nic *roce_create(const struct roce_config *config)
{
    struct roce_nic *nic = calloc(1, sizeof *nic);

    if (!nic)
        return NULL;
    nic->config = *config;
    nic->next_qpn = config->first_qpn;
    nic->completions_room = power_of_2((uint64_t)config->queue_pairs * config->receives);
    nic->queue_pairs = calloc(config->queue_pairs, sizeof *nic->queue_pairs);
    nic->completions = calloc(nic->completions_room, sizeof *nic->completions);
    pthread_mutex_init(&nic->lock, NULL);
    if (!nic->queue_pairs || !nic->completions) {
        roce_destroy(nic);
        return NULL;
    }
    return nic;
}

void roce_destroy(struct roce_nic *nic)
{
    pthread_mutex_destroy(&nic->lock);
    free(nic->queue_pairs);
    free(nic->completions);
    free(nic);
}

uint32_t roce_register(struct roce_nic *nic, uint8_t *memory, uint64_t length, uint64_t base,
                       uint32_t rkey, uint8_t access)
{
    uint32_t number = UINT32_MAX;

    pthread_mutex_lock(&nic->lock);
    if (nic->domains_used < ROCE_DOMAINS) {
        number = nic->domains_used++;
        nic->domains[number] = (struct domain){memory, length, base, rkey, access};
    }
    pthread_mutex_unlock(&nic->lock);
    return number;
}

static struct queue_pair *place(struct roce_nic *nic, uint32_t qpn)
{
    return &nic->queue_pairs[qpn & (nic->config.queue_pairs - 1)];
}

struct queue_pair *find_queue_pair(struct roce_nic *nic, uint32_t qpn)
{
    struct queue_pair *pair = place(nic, qpn);

    return qpn && pair->qpn == qpn ? pair : NULL;
}

/* Returns an unused queue pair with a new number. Numbers ascend, and are reused only after they
 * wrap around. So a packet for a closed queue pair does not reach a new one. */
static struct queue_pair *free_place(struct roce_nic *nic)
{
    for (uint32_t tried = 0; tried < nic->config.queue_pairs; tried++) {
        struct queue_pair *pair = place(nic, nic->next_qpn);
        uint32_t qpn = nic->next_qpn;

        /* 0xffffff is reserved for multicast */
        nic->next_qpn = qpn == PSN_MASK - 1 ? GSI + 1 : qpn + 1;
        if (!pair->qpn) {
            memset(pair, 0, sizeof *pair);
            pair->qpn = qpn;
            return pair;
        }
    }
    return NULL;
}

uint32_t roce_connect(struct roce_nic *nic, const struct roce_connection *connection)
{
    uint32_t qpn = UINT32_MAX;
    struct queue_pair *pair;

    pthread_mutex_lock(&nic->lock);
    pair = connection->domain < nic->domains_used ? free_place(nic) : NULL;
    if (pair) {
        qpn = pair->qpn;
        pair->with = *connection;
        pair->domain = &nic->domains[connection->domain];
        pair->psn = connection->psn & PSN_MASK;
        pair->receives = nic->config.receives;
    }
    pthread_mutex_unlock(&nic->lock);
    return qpn;
}

bool roce_disconnect(struct roce_nic *nic, uint32_t qpn)
{
    struct queue_pair *pair;

    pthread_mutex_lock(&nic->lock);
    pair = find_queue_pair(nic, qpn);
    if (pair)
        pair->qpn = 0;
    pthread_mutex_unlock(&nic->lock);
    return pair;
}

uint32_t roce_expected(struct roce_nic *nic, uint32_t qpn)
{
    const struct queue_pair *pair;
    uint32_t psn;

    pthread_mutex_lock(&nic->lock);
    pair = find_queue_pair(nic, qpn);
    psn = pair && !pair->is_broken ? pair->psn : UINT32_MAX;
    pthread_mutex_unlock(&nic->lock);
    return psn;
}

/* Checks that a packet is from the peer of the queue pair (IBTA, 9.6.1). */
static enum roce_reason check_headers(const struct queue_pair *pair, const struct packet *packet,
                                      struct roce_refusal *refusal)
{
    uint8_t transport;

    if (!pair)
        return ROCE_QUEUE_PAIR;
    transport = pair->with.is_reliable ? RC : UC;
    if ((packet->opcode & TRANSPORT) != transport || !(packet->operation->is & IS_REQUEST) ||
        (transport == UC && packet->operation->is & IS_RC_ONLY)) {
        refusal->got = packet->opcode;
        return ROCE_OPCODE;
    }
    if (pair->is_broken)
        return ROCE_BROKEN;
    if (memcmp(&packet->source, &pair->with.peer, sizeof packet->source) ||
        memcmp(&packet->destination, &pair->with.own, sizeof packet->destination))
        return ROCE_ADDRESS;
    return ROCE_ACCEPTED;
}

static enum roce_reason check_partition(const uint8_t *bth, struct roce_refusal *refusal)
{
    refusal->got = (uint64_t)(bth[2] << 8 | bth[3]);
    refusal->expected = 0xffff;
    return (refusal->got & DEFAULT_PARTITION) == DEFAULT_PARTITION ? ROCE_ACCEPTED
                                                                   : ROCE_PARTITION;
}

static void keep_management(struct roce_nic *nic, const uint8_t *frame, uint32_t length)
{
    struct management *place = &nic->managed[nic->managed_put % ROCE_MANAGEMENT_FRAMES];

    if (length > ROCE_MANAGEMENT_ROOM ||
        nic->managed_put - nic->managed_taken == ROCE_MANAGEMENT_FRAMES)
        return;
    place->length = length;
    memcpy(place->frame, frame, length);
    nic->managed_put++;
}

static enum roce_reason for_whom(struct roce_nic *nic, const struct packet *packet,
                                 struct queue_pair **pair, struct roce_refusal *refusal)
{
    enum roce_reason reason;

    if (packet->bth[1] & 0xf) {
        refusal->got = packet->bth[1] & 0xf;
        return ROCE_VERSION;
    }
    if (packet->qpn == GSI)
        return packet->opcode == (UD | SEND_ONLY) ? ROCE_MANAGED : ROCE_OPCODE;
    *pair = find_queue_pair(nic, packet->qpn);
    reason = check_headers(*pair, packet, refusal);
    return reason ? reason : check_partition(packet->bth, refusal);
}

enum roce_reason take_frame(struct roce_nic *nic, const uint8_t *frame, uint32_t length,
                            struct roce_refusal *refusal, struct roce_reply *reply)
{
    struct packet packet;
    struct queue_pair *pair;
    enum roce_reason reason = read_packet(nic, frame, length, &packet, refusal);

    reply->length = 0;
    if (!reason)
        reason = for_whom(nic, &packet, &pair, refusal);
    if (reason == ROCE_MANAGED)
        keep_management(nic, frame, length);
    if (!reason)
        reason = respond(nic, pair, &packet, refusal, reply);
    if (reason)
        nic->counts.refused[reason]++;
    else
        nic->counts.accepted[packet.opcode & (OPERATIONS - 1)]++;
    return reason;
}

void receive_frame(struct roce_nic *nic, const uint8_t *frame, uint32_t length, uint64_t time_ns,
                   struct roce_reply *reply)
{
    struct roce_refusal refusal = {.time_ns = time_ns};

    refusal.reason = (uint8_t)take_frame(nic, frame, length, &refusal, reply);
    if (refusal.reason > ROCE_FOREIGN)
        nic->refusals[nic->refusals_put++ % ROCE_REFUSALS] = refusal;
}

void roce_receive(struct roce_nic *nic, const struct arrival_record *arrivals, uint32_t count,
                  const uint8_t *bytes, struct roce_reply *replies)
{
    pthread_mutex_lock(&nic->lock);
    for (uint32_t i = 0; i < count; i++) {
        receive_frame(nic, bytes, arrivals[i].length, arrivals[i].time_ns, &replies[i]);
        bytes += arrivals[i].length;
    }
    pthread_mutex_unlock(&nic->lock);
}

uint32_t roce_refusals(struct roce_nic *nic, struct roce_refusal refusals[ROCE_REFUSALS])
{
    uint64_t first;
    uint32_t count;

    pthread_mutex_lock(&nic->lock);
    first = nic->refusals_put > ROCE_REFUSALS ? nic->refusals_put - ROCE_REFUSALS : 0;
    count = (uint32_t)(nic->refusals_put - first);
    for (uint32_t i = 0; i < count; i++)
        refusals[i] = nic->refusals[(first + i) % ROCE_REFUSALS];
    pthread_mutex_unlock(&nic->lock);
    return count;
}

uint32_t roce_management(struct roce_nic *nic, uint8_t frame[ROCE_MANAGEMENT_ROOM])
{
    uint32_t length = 0;

    pthread_mutex_lock(&nic->lock);
    if (nic->managed_taken < nic->managed_put) {
        const struct management *place =
            &nic->managed[nic->managed_taken++ % ROCE_MANAGEMENT_FRAMES];

        length = place->length;
        memcpy(frame, place->frame, length);
    }
    pthread_mutex_unlock(&nic->lock);
    return length;
}

uint32_t roce_completions(struct roce_nic *nic, struct roce_completion *completions, uint32_t room)
{
    uint32_t taken = 0;

    pthread_mutex_lock(&nic->lock);
    for (; taken < room && nic->completions_taken < nic->completions_put; taken++) {
        uint64_t at = nic->completions_taken++ & (nic->completions_room - 1);
        struct queue_pair *pair;

        completions[taken] = nic->completions[at];
        pair = find_queue_pair(nic, completions[taken].qpn);
        if (pair)
            pair->receives++;
    }
    pthread_mutex_unlock(&nic->lock);
    return taken;
}

void roce_get_counts(struct roce_nic *nic, struct roce_counts *counts)
{
    pthread_mutex_lock(&nic->lock);
    *counts = nic->counts;
    pthread_mutex_unlock(&nic->lock);
}
