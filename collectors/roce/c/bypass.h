/* Bypass of the kernel's IP stack, for RoCE frames to one address. */
#ifndef COLLECTORS_ROCE_BYPASS_H
#define COLLECTORS_ROCE_BYPASS_H

#include "nic.h"

/* Opens a bypass. While the returned descriptor is open, packet sockets receive the frames, and
 * then the kernel drops them. Returns -1 and sets errno on failure; errno is EINVAL if the kernel
 * is older than 6.6. */
int roce_bypass_open(const char *interface, const struct roce_gid *own);

#endif
