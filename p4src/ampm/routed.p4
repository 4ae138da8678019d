/* The AM-PM switch as an IPv4 router: with equal-cost paths (ECMP) and multicast, for flows that
 * take several paths (RFC 9342). It drops packets that are not IPv4. */
#define AMPM_ROUTED
#include "ampm.p4"
