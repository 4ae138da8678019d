/* Responder in real time, with frames from a packet socket's ring and responses over the same
 * socket. */
#ifndef COLLECTORS_ROCE_RAW_SOCKET_H
#define COLLECTORS_ROCE_RAW_SOCKET_H

#include "nic.h"

struct roce_socket;

/* Returns NULL on failure, with errno. */
struct roce_socket *roce_socket_open(struct roce_nic *nic, const char *interface);
void roce_socket_close(struct roce_socket *sock);

/* Runs until `stop` is readable. Increments the event counter `wake` (eventfd(2)) for
 * completions and frames of connection management. Returns 0 or an errno. */
int roce_socket_run(struct roce_socket *sock, int stop, int wake);

/* Sends a frame over the socket's interface, from any thread. Returns 0 or an errno. */
int roce_socket_send(struct roce_socket *sock, const uint8_t *frame, uint32_t length);

/* Returns the number of frames lost to a full ring since the last call. */
uint64_t roce_socket_drops(struct roce_socket *sock);

#endif
