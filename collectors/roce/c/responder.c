/* Rules of a responder (IBTA, 9.6 to 9.8): which requests it executes, and how it responds.
 *
 * The checks have the same order as in Linux's rdma_rxe. */
#include "numbers.h"
#include "nic_internal.h"

/* A request and its queue pair. */
struct request {
    struct roce_nic *nic;
    struct queue_pair *pair;
    const struct packet *packet;
    struct roce_refusal *refusal;
    struct roce_reply *reply;
};

static bool is(const struct request *request, unsigned what)
{
    return (request->packet->operation->is & what) == what;
}

static void answer(const struct request *request, struct answer with)
{
    write_answer(request->pair, request->packet, with, request->reply);
}

static void acknowledge(const struct request *request, uint32_t psn, uint8_t syndrome)
{
    answer(request, (struct answer){.opcode = ACKNOWLEDGE, .psn = psn, .syndrome = syndrome});
}

static enum roce_reason note(const struct request *request, enum roce_reason reason, uint64_t got,
                             uint64_t expected)
{
    request->refusal->got = got;
    request->refusal->expected = expected;
    return reason;
}

/* Rejects a request. On a reliable connection, a NAK ends the connection. On UC, the rest of the
 * message is dropped without a response (9.9.3). */
static void refuse(const struct request *request, uint8_t syndrome)
{
    if (request->pair->with.is_reliable) {
        acknowledge(request, request->packet->psn, syndrome);
        request->pair->is_broken = true;
    } else {
        request->pair->is_dropping = true;
        request->pair->is_open = false;
    }
}

/* Returns the distance from the PSN `of` to the PSN `psn`, modulo the PSN space (9.7.1). */
static int32_t ahead(uint32_t psn, uint32_t of)
{
    return (int32_t)((psn - of) << 8) >> 8;
}

/* Handles a request that was sent again (9.7.5.1.3). For a write, sends an ACK with the PSN that
 * was executed last. For an atomic operation, sends the stored response again. */
static enum roce_reason repeat(const struct request *request)
{
    const struct queue_pair *pair = request->pair;

    if (is(request, IS_WRITE) || is(request, IS_SEND)) {
        acknowledge(request, (pair->psn - 1) & PSN_MASK, SYNDROME_ACK);
        return ROCE_DUPLICATE;
    }
    for (unsigned i = 0; is(request, IS_ATOMIC) && i < ROCE_REPLAYS; i++) {
        const struct replay *replay = &pair->replays[i];

        if (replay->is_used && replay->psn == request->packet->psn) {
            answer(request, (struct answer){request->packet->psn, ATOMIC_ACKNOWLEDGE, SYNDROME_ACK,
                                            replay->before});
            return ROCE_DUPLICATE;
        }
    }
    return ROCE_FORGOTTEN;
}

static enum roce_reason check_psn(const struct request *request)
{
    struct queue_pair *pair = request->pair;
    int32_t distance = ahead(request->packet->psn, pair->psn);

    note(request, ROCE_ACCEPTED, request->packet->psn, pair->psn);
    if (!pair->with.is_reliable) {
        if (!distance && !pair->is_dropping)
            return ROCE_ACCEPTED;
        pair->is_dropping = !is(request, BEGINS);
        return pair->is_dropping ? ROCE_MESSAGE_CUT : ROCE_ACCEPTED;
    }
    if (distance < 0)
        return repeat(request);
    if (distance > 0 && pair->is_nak_sent)
        return ROCE_GAP_AGAIN;
    pair->is_nak_sent = distance > 0;
    if (pair->is_nak_sent)
        acknowledge(request, pair->psn, NAK_SEQUENCE);
    return distance ? ROCE_GAP : ROCE_ACCEPTED;
}

/* Checks that the first, middle and last packets of a message are in this order (9.7.4.1.2). */
static enum roce_reason check_order(const struct request *request)
{
    struct queue_pair *pair = request->pair;

    if (pair->is_open && is(request, BEGINS)) {
        if (!pair->with.is_reliable) { /* the rest of the previous message is ignored (9.8.2) */
            pair->is_open = false;
            return ROCE_ACCEPTED;
        }
        refuse(request, NAK_INVALID);
        return ROCE_NOT_ENDED;
    }
    if (pair->is_open == !is(request, BEGINS) && (!pair->is_open || is(request, IS_WRITE)))
        return ROCE_ACCEPTED;
    refuse(request, NAK_INVALID);
    return ROCE_NOT_BEGUN;
}

/* Adds a completion. The ring has a slot for each waiting completion, even for those of closed
 * queue pairs. */
static bool may_complete(const struct request *request)
{
    const struct roce_nic *nic = request->nic;

    return request->pair->receives &&
           nic->completions_put - nic->completions_taken < nic->completions_room;
}

static enum roce_reason check_rights(const struct request *request)
{
    struct queue_pair *pair = request->pair;
    uint8_t needed = is(request, IS_WRITE) ? ROCE_WRITE : ROCE_ATOMIC;

    if (!is(request, IS_WRITE) && !is(request, IS_ATOMIC)) {
        refuse(request, NAK_INVALID);
        return note(request, ROCE_UNSUPPORTED, request->packet->opcode, 0);
    }
    if (!(pair->with.access & needed)) {
        refuse(request, NAK_INVALID);
        return note(request, ROCE_ACCESS, pair->with.access, needed);
    }
    if (is(request, HAS_IMMEDIATE) && !may_complete(request)) {
        if (pair->with.is_reliable)
            acknowledge(request, request->packet->psn, SYNDROME_RNR | RNR_WAIT);
        else
            refuse(request, 0);
        return ROCE_NO_RECEIVE;
    }
    return ROCE_ACCEPTED;
}

/* Checks RETH or AtomicETH. Both begin with the address and the R_Key (9.3.3, 9.3.4). */
static enum roce_reason check_memory(const struct request *request, uint64_t at, uint32_t key,
                                     uint32_t length)
{
    const struct domain *domain = request->pair->domain;
    uint8_t needed = is(request, IS_WRITE) ? ROCE_WRITE : ROCE_ATOMIC;
    enum roce_reason reason = ROCE_ACCEPTED;

    if (key != domain->rkey)
        reason = note(request, ROCE_KEY, key, domain->rkey);
    else if (!(domain->access & needed))
        reason = note(request, ROCE_KEY_ACCESS, domain->access, needed);
    else if (at < domain->base || at - domain->base > domain->length ||
             length > domain->length - (at - domain->base))
        reason = note(request, ROCE_BOUNDS, at + length, domain->base + domain->length);
    if (reason)
        refuse(request, NAK_ACCESS);
    return reason;
}

/* Checks the length of the payload of a packet (9.7.4.1.6). `left` is the number of bytes of the
 * message that have not arrived in earlier packets. */
static enum roce_reason check_length(const struct request *request, uint32_t left)
{
    const struct packet *packet = request->packet;
    uint32_t path_mtu = request->nic->config.path_mtu;
    uint32_t expected = is(request, ENDS) ? left : path_mtu;
    bool is_too_much = is(request, ENDS) ? left > path_mtu : left <= path_mtu;

    if (is_too_much || packet->payload_length != expected) {
        refuse(request, NAK_INVALID);
        return note(request, ROCE_LENGTH, packet->payload_length, expected);
    }
    if (packet->padding != (-expected & 3)) {
        refuse(request, NAK_INVALID);
        return note(request, ROCE_PADDING, packet->padding, -expected & 3);
    }
    return ROCE_ACCEPTED;
}

static void complete(const struct request *request)
{
    struct roce_nic *nic = request->nic;
    const uint8_t *immediate = request->packet->payload - 4;

    request->pair->receives--;
    nic->completions[nic->completions_put++ & (nic->completions_room - 1)] =
        (struct roce_completion){request->pair->qpn, get32(immediate), request->pair->written};
}

static enum roce_reason carry_out_write(const struct request *request)
{
    struct queue_pair *pair = request->pair;
    const struct packet *packet = request->packet;
    uint64_t at = pair->at;
    uint32_t left = pair->left;
    enum roce_reason reason = ROCE_ACCEPTED;

    if (is(request, BEGINS)) {
        at = get64(packet->headers);
        left = get32(packet->headers + 12);
        if (left) /* 9.7.4.1.5: if there is no data, R_Key and address are not checked */
            reason = check_memory(request, at, get32(packet->headers + 8), left);
    }
    if (reason || (reason = check_length(request, left)))
        return reason;
    if (packet->payload_length)
        memcpy(pair->domain->memory + (at - pair->domain->base), packet->payload,
               packet->payload_length);
    pair->is_open = !is(request, ENDS);
    pair->at = at + packet->payload_length;
    pair->left = left - packet->payload_length;
    pair->written = (is(request, BEGINS) ? 0 : pair->written) + packet->payload_length;
    if (is(request, HAS_IMMEDIATE))
        complete(request);
    return ROCE_ACCEPTED;
}

static enum roce_reason carry_out_atomic(const struct request *request, uint64_t *before)
{
    struct queue_pair *pair = request->pair;
    const uint8_t *headers = request->packet->headers;
    uint64_t at = get64(headers), operand = get64(headers + 12), compare = get64(headers + 20);
    enum roce_reason reason = check_memory(request, at, get32(headers + 8), sizeof at);
    uint64_t *memory;

    if (reason)
        return reason;
    memory = (uint64_t *)(void *)(pair->domain->memory + (at - pair->domain->base));
    if ((uintptr_t)memory & 7) {
        refuse(request, NAK_INVALID);
        return note(request, ROCE_ALIGNMENT, at & 7, 0);
    }
    if (request->packet->payload_length || request->packet->padding) {
        refuse(request, NAK_INVALID);
        return note(request, ROCE_LENGTH, request->packet->payload_length, 0);
    }
    if ((request->packet->opcode & (OPERATIONS - 1)) == FETCH_ADD) {
        *before = __atomic_fetch_add(memory, operand, __ATOMIC_SEQ_CST);
    } else {
        *before = compare;
        __atomic_compare_exchange_n(memory, before, operand, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
    }
    pair->replays[pair->next_replay++ % ROCE_REPLAYS] =
        (struct replay){*before, request->packet->psn, true};
    return ROCE_ACCEPTED;
}

static enum roce_reason check_and_carry_out(const struct request *request, uint64_t *before)
{
    enum roce_reason reason = check_psn(request);

    if (reason || (reason = check_order(request)) || (reason = check_rights(request)))
        return reason;
    return is(request, IS_WRITE) ? carry_out_write(request) : carry_out_atomic(request, before);
}

enum roce_reason respond(struct roce_nic *nic, struct queue_pair *pair, const struct packet *packet,
                         struct roce_refusal *refusal, struct roce_reply *reply)
{
    struct request request = {nic, pair, packet, refusal, reply};
    uint64_t before = 0;
    enum roce_reason reason = check_and_carry_out(&request, &before);

    if (reason)
        return reason;
    pair->psn = (packet->psn + 1) & PSN_MASK;
    pair->msn = (pair->msn + is(&request, ENDS)) & PSN_MASK;
    if (!pair->with.is_reliable)
        return ROCE_ACCEPTED;
    if (is(&request, IS_ATOMIC))
        answer(&request, (struct answer){packet->psn, ATOMIC_ACKNOWLEDGE, SYNDROME_ACK, before});
    else if (packet->wants_ack)
        acknowledge(&request, packet->psn, SYNDROME_ACK);
    return ROCE_ACCEPTED;
}
