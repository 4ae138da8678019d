/* Fuzzes the RoCE responder. It mutates frames from a file, for queue pairs of both kinds.
 *
 * Usage: roce_responder FRAMES SEED COUNT. The file FRAMES has the length (32 bits) and the bytes
 * of each frame. Checks that only accepted frames change memory, and that responses have a correct
 * iCRC. Prints how many frames were accepted, how many had a response, and then how many were
 * rejected for each reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "nic_internal.h"

enum { FRAMES = 4096, REGION = 8192, MOST = 2048, PAIRS = 4, FIRST_QPN = 0x100 };

static const uint64_t base = (uint64_t)1 << 32;
static const uint32_t rkey = 0x1000;
static struct {
    uint32_t length;
    uint8_t bytes[MOST];
} frames[FRAMES];
static uint64_t state;

static uint32_t random_below(uint32_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % limit);
}

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static unsigned read_frames(const char *path)
{
    FILE *file = fopen(path, "rb");
    unsigned count = 0;

    if (!file)
        fail(path);
    while (count < FRAMES && fread(&frames[count].length, 4, 1, file) == 1) {
        if (frames[count].length > MOST ||
            fread(frames[count].bytes, 1, frames[count].length, file) != frames[count].length)
            fail("a frame is cut");
        count++;
    }
    fclose(file);
    return count;
}

static uint32_t connect_pair(struct roce_nic *nic, const uint8_t *frame, unsigned number)
{
    struct roce_connection with = {.peer_qpn = 7, .psn = random_below(1 << 24), .domain = !random_below(8)};

    with.is_reliable = number % 2;
    with.access = (uint8_t)(random_below(8) ? 3 : random_below(4));
    if (get16(frame + 12) == 0x0800) {
        with.own.bytes[10] = with.own.bytes[11] = with.peer.bytes[10] = with.peer.bytes[11] = 0xff;
        memcpy(with.peer.bytes + 12, frame + 26, 4);
        memcpy(with.own.bytes + 12, frame + 30, 4);
    } else {
        memcpy(with.peer.bytes, frame + 22, 16);
        memcpy(with.own.bytes, frame + 38, 16);
    }
    return roce_connect(nic, &with);
}

static uint32_t bth_of(const uint8_t *frame)
{
    uint16_t type = get16(frame + 12);

    return ETHERNET + (type == 0x0800 ? IPV4 + UDP : type == 0x8915 ? GRH : IPV6 + UDP);
}

static void change(uint8_t *frame, uint32_t *length)
{
    static const uint8_t often[] = {0, 1, 3, 4, 7, 8, 0x0a, 0x0b, 0x14, 0x7f, 0x80, 0xff};

    for (unsigned left = random_below(4); left; left--) {
        uint32_t at = random_below(random_below(4) ? *length < 90 ? *length : 90 : *length);

        switch (random_below(5)) {
        case 0: frame[at] ^= (uint8_t)(1 << random_below(8)); break;
        case 1: frame[at] = (uint8_t)random_below(256); break;
        case 2: frame[at] = often[random_below(sizeof often)]; break;
        case 3: *length = random_below(8) ? *length : 1 + random_below(*length); break;
        default: *length += *length + 8 < MOST ? random_below(8) : 0; break;
        }
    }
}

/* In most IPv4 frames, corrects the length, even if the frame is short, and then the checksum. */
static void mend_ipv4(uint8_t *frame, uint32_t length)
{
    if (length < ETHERNET + IPV4 || get16(frame + 12) != 0x0800)
        return;
    if (random_below(2))
        put16(frame + 16, length - ETHERNET);
    if (random_below(8)) {
        put16(frame + 24, 0);
        put16(frame + 24, (uint16_t)~ip_checksum(frame + ETHERNET));
    }
}

/* In most frames, corrects queue pair, PSN and iCRC, so that the frames pass more checks. */
static void mend(struct roce_nic *nic, uint8_t *frame, uint32_t length, uint32_t qpn)
{
    uint32_t bth = length > ETHERNET ? bth_of(frame) : 0, right, psn;

    mend_ipv4(frame, length);
    if (length < bth + BTH + ICRC || !bth)
        return;
    psn = roce_expected(nic, qpn);
    if (random_below(8))
        put24(frame + bth + 5, random_below(32) ? qpn : GSI);
    if (!random_below(64))
        frame[bth] = UD | SEND_ONLY;
    if (random_below(4) && psn != UINT32_MAX)
        put24(frame + bth + 9, psn + (random_below(4) ? 0 : random_below(5) - 2));
    if (random_below(16)) {
        right = icrc(frame + ETHERNET, frame + bth, frame + length - ICRC);
        memcpy(frame + length - ICRC, &right, sizeof right);
    }
}

/* Processes one frame, in memory of exactly its length. Returns why the frame was rejected. */
static enum roce_reason give(struct roce_nic *nic, const uint8_t *frame, uint32_t length,
                             const uint8_t *memory, uint8_t *before, uint64_t *answered)
{
    struct roce_refusal refusal = {0};
    struct roce_reply *reply = malloc(sizeof *reply);
    uint8_t *exact = malloc(length);
    enum roce_reason reason;

    memcpy(exact, frame, length);
    reason = take_frame(nic, exact, length, &refusal, reply);
    if (reason && memcmp(memory, before, REGION))
        fail("a frame that was refused changed memory");
    if (!reason)
        memcpy(before, memory, REGION);
    if (reply->length) {
        const uint8_t *end = reply->frame + reply->length - ICRC;
        uint32_t right = icrc(reply->frame + ETHERNET, reply->frame + bth_of(reply->frame), end);

        if (memcmp(end, &right, sizeof right))
            fail("an answer has a wrong iCRC");
        ++*answered;
    }
    free(exact);
    free(reply);
    return reason;
}

int main(int count, char **arguments)
{
    struct roce_config config = {
        .first_qpn = FIRST_QPN, .queue_pairs = PAIRS, .receives = 1, .path_mtu = 1024};
    struct roce_nic *nic = roce_create(&config);
    uint8_t *memory = calloc(1, REGION), *before = calloc(1, REGION);
    uint64_t reasons[ROCE_REASONS] = {0}, answered = 0;
    unsigned kinds = count == 4 ? read_frames(arguments[1]) : 0;

    if (!kinds || !nic)
        fail("expected FRAMES SEED COUNT");
    state = strtoull(arguments[2], NULL, 10);
    roce_register(nic, memory, REGION, base, rkey, 3);
    roce_register(nic, memory, REGION, base, rkey, ROCE_WRITE);
    for (uint64_t left = strtoull(arguments[3], NULL, 10); left; left--) {
        unsigned kind = random_below(kinds), steps = 1 + random_below(4);
        uint32_t qpn = connect_pair(nic, frames[kind].bytes, random_below(2));
        struct roce_completion completions[8];

        for (; steps; steps--, kind = random_below(4) ? kind : random_below(kinds)) {
            uint8_t changed[MOST];
            uint32_t length = frames[kind].length;

            memcpy(changed, frames[kind].bytes, length);
            change(changed, &length);
            mend(nic, changed, length, qpn);
            reasons[give(nic, changed, length, memory, before, &answered)]++;
        }
        roce_disconnect(nic, qpn);
        if (!random_below(16))
            roce_completions(nic, completions, 8);
    }
    printf("%lu\n", answered);
    for (unsigned reason = 0; reason < ROCE_REASONS; reason++)
        printf("%lu\n", reasons[reason]);
    roce_destroy(nic);
    free(memory);
    free(before);
    return 0;
}
