/* Which bits and ports telemetry takes from the hosts' packets: one table, so that programs combine.
 *
 *   DSCP bit (mask)   taken by   meaning
 *   0x01              AM-PM      colour of the block, the L flag of RFC 9341
 *   0x02              AM-PM      pulse, the D flag of RFC 9341
 *
 * Only inside the domain, only of watched flows, and only those bits that a flow's methods take: the
 * last switch sets them to what they are outside, which the controller tells it for each flow. All
 * other DSCP bits pass untouched. Of the standard DSCPs, LE has bit 0x01, and EF, AFx1 and AFx3 have
 * bit 0x02. IPv6 has an option for both flags (RFC 9343).
 *
 *   DSCP or port              taken by   meaning
 *   DSCP 4 to 7 (0001xx)      INT        INT headers follow UDP or TCP; the bits xx are AM-PM's still
 *   UDP port INT_UDP_PORT     INT        the same, where a domain marks by port
 *
 * No standard DSCP is among the four, and INT's sink puts back what the packet had. A packet that
 * comes from outside with one of them leaves with DSCP 0. */
#ifndef TELEMARK_ALLOCATION_P4
#define TELEMARK_ALLOCATION_P4

#define AMPM_COLOUR(dscp) dscp[0:0]
#define AMPM_PULSE(dscp) dscp[1:1]

@noWarn("unused") const bit<6> INT_DSCP = 0x04;
@noWarn("unused") const bit<6> INT_DSCP_MASK = 0x3C;

#ifndef INT_UDP_PORT  // IANA has assigned none
#define INT_UDP_PORT 32767
#endif

const bit<9> CPU_PORT = 255;  // where packets to and from the controller pass (--cpu-port 255)

#endif
