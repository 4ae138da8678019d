/* Responder in real time: frames from a packet socket's ring, answers over the same socket. */
#ifndef COLLECTORS_ROCE_CARD_H
#define COLLECTORS_ROCE_CARD_H

#include "nic.h"

struct roce_card;

/* NULL: see errno. */
struct roce_card *roce_card_open(struct roce_nic *nic, const char *interface);
void roce_card_close(struct roce_card *card);

/* Runs until `stop` is readable. Adds to the event counter `wake` (eventfd(2)) for completions
 * and frames of connection management. Returns 0, or an errno. */
int roce_card_run(struct roce_card *card, int stop, int wake);

/* Sends over the card's interface, from any thread. Returns 0, or an errno. */
int roce_card_send(struct roce_card *card, const uint8_t *frame, uint32_t length);

/* Returns the number of frames lost to a full ring since the last call. */
uint64_t roce_card_drops(struct roce_card *card);

#endif
