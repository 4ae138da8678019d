/* Bypass of the kernel's IP stack for RoCE frames to one address. */
#ifndef COLLECTORS_ROCE_BYPASS_H
#define COLLECTORS_ROCE_BYPASS_H

#include "nic.h"

/* While the returned descriptor is open, the kernel drops these frames after packet sockets have
 * received them. Returns -1 on failure, with errno; EINVAL on kernels older than 6.6. */
int roce_bypass_open(const char *interface, const struct roce_gid *own);

#endif
