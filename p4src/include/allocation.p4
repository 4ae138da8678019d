/* Which bits and ports telemetry takes from the hosts' packets: one table, so that programs combine.
 *
 *   DSCP bit (mask)   taken by   meaning
 *   0x01              AM-PM      colour of the block, the L flag of RFC 9341
 *   0x02              AM-PM      pulse, the D flag of RFC 9341
 *
 * A domain's hosts leave these bits 0 (RFC 9341 section 7: a controlled domain); the domain's last
 * switch sets them back to 0. All other DSCP bits pass untouched. IPv6 has an option for both flags
 * (RFC 9343), which the sending host puts in. */
#ifndef TELEMARK_ALLOCATION_P4
#define TELEMARK_ALLOCATION_P4

#define AMPM_COLOUR(dscp) dscp[0:0]
#define AMPM_PULSE(dscp) dscp[1:1]

const bit<9> CPU_PORT = 255;  // where packets to and from the controller pass (--cpu-port 255)

#endif
