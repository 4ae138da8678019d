/* Multicast of IPv4 packets: a switch sends a copy of the packet to each port of a group.
 *
 * A switch counts arrivals before it makes the copies, and departures after it made them. So the
 * loss in a switch with c ports in the group is c * arrivals - departures, in copies. The loss on
 * the links after a switch is the difference of the counts, as for unicast. */
#ifndef TELEMARK_AMPM_MULTICAST_P4
#define TELEMARK_AMPM_MULTICAST_P4

#include "../include/headers.p4"

/* `found` is true if the packet has a group, so that it needs no route. */
control Multicast(
    inout ipv4_t ipv4, inout standard_metadata_t standard_metadata, out bool found) {
    action replicate(bit<16> group) {
        standard_metadata.mcast_grp = group;
        bit<16> before = ipv4.ttl ++ ipv4.protocol;
        ipv4.ttl = ipv4.ttl - 1;
        bit<16> after = ipv4.ttl ++ ipv4.protocol;
        ipv4.checksum = changed_checksum(ipv4.checksum, before, after);
    }

    table multicast_groups {
        key = { ipv4.dst_addr: exact @name("hdr.ipv4.dst_addr"); }
        actions = { replicate; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        found = false;
        if (ipv4.isValid() && ipv4.ihl >= 5 && ipv4.ttl > 1) {
            switch (multicast_groups.apply().action_run) {
                replicate: { found = true; }
            }
        }
    }
}

#endif
