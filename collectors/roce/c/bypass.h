/* RoCE frames of an address need not go through the machine's IP stack. */
#ifndef COLLECTORS_ROCE_BYPASS_H
#define COLLECTORS_ROCE_BYPASS_H

#include "nic.h"

/* From now on the kernel drops them behind packet sockets, which have seen them by then, for as long as
 * the descriptor that this returns is open. -1: errno says why; EINVAL is that of kernels before 6.6. */
int roce_bypass_open(const char *interface, const struct roce_gid *own);

#endif
