/* Responder in real time. Frames come from the ring of a packet socket, and responses are sent over
 * the same socket. */
#ifndef COLLECTORS_ROCE_RAW_SOCKET_H
#define COLLECTORS_ROCE_RAW_SOCKET_H

#include "nic.h"

struct roce_socket;

/* Opens the socket. Returns NULL and sets errno on failure. */
struct roce_socket *roce_socket_open(struct roce_nic *nic, const char *interface);
void roce_socket_close(struct roce_socket *sock);

/* Runs until `stop` is readable. For completions and management frames, it increments the event
 * counter `wake` (eventfd(2)). Returns 0 or an errno. */
int roce_socket_run(struct roce_socket *sock, int stop, int wake);

/* Sends a frame over the interface of the socket. Any thread may call it. Returns 0 or an errno. */
int roce_socket_send(struct roce_socket *sock, const uint8_t *frame, uint32_t length);

/* Returns how many frames were lost since the last call because the ring was full. */
uint64_t roce_socket_drops(struct roce_socket *sock);

#endif
