/* Allocation of DSCP bits and ports to telemetry methods, so that programs can be combined.
 *
 *   DSCP bit (mask)   used by    meaning
 *   0x01              AM-PM      colour of the block, the L flag of RFC 9341
 *   0x02              AM-PM      pulse, the D flag of RFC 9341
 *
 * This allocation applies only inside the domain, only to watched flows, and only to the bits that
 * the methods of a flow use. The last switch restores these bits to their values outside of the
 * domain. The controller configures these values for each flow. All other DSCP bits pass unchanged.
 * Of the standard DSCPs, LE has bit 0x01, and EF, AFx1 and AFx3 have bit 0x02. IPv6 packets may
 * have an option with both flags instead (RFC 9343).
 *
 *   DSCP or port              used by    meaning
 *   DSCP 4 to 7 (0001xx)      INT        INT headers follow UDP or TCP; AM-PM still uses the bits xx
 *   UDP port INT_UDP_PORT     INT        the same, if a domain marks by port
 *
 * None of these four DSCP values is a standard DSCP. The INT sink restores the original DSCP. If a
 * packet enters the domain with one of the four values, it leaves the domain with DSCP 0. */
#ifndef TELEMARK_ALLOCATION_P4
#define TELEMARK_ALLOCATION_P4

#define AMPM_COLOUR(dscp) dscp[0:0]
#define AMPM_PULSE(dscp) dscp[1:1]

@noWarn("unused") const bit<6> INT_DSCP = 0x04;
@noWarn("unused") const bit<6> INT_DSCP_MASK = 0x3C;

#ifndef INT_UDP_PORT  // IANA has not assigned this port
#define INT_UDP_PORT 32767
#endif

const bit<9> CPU_PORT = 255;  // port for packets from and to the controller (--cpu-port 255)

#endif
