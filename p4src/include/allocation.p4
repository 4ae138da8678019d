/* Which bits and ports telemetry takes from the hosts' packets: one table, so that programs combine.
 *
 *   DSCP bit (mask)   taken by   meaning
 *   0x01              AM-PM      colour of the block, the L flag of RFC 9341
 *   0x02              AM-PM      pulse, the D flag of RFC 9341
 *
 * Only inside the domain, only of watched flows, and only those bits that a flow's methods take: the
 * last switch sets them to what they are outside, which the controller tells it for each flow. All
 * other DSCP bits pass untouched. Of the standard DSCPs, LE has bit 0x01, and EF, AFx1 and AFx3 have
 * bit 0x02. IPv6 has an option for both flags (RFC 9343). */
#ifndef TELEMARK_ALLOCATION_P4
#define TELEMARK_ALLOCATION_P4

#define AMPM_COLOUR(dscp) dscp[0:0]
#define AMPM_PULSE(dscp) dscp[1:1]

const bit<9> CPU_PORT = 255;  // where packets to and from the controller pass (--cpu-port 255)

#endif
