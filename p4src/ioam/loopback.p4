/* Loopback flag (RFC 9322, section 4): a transit node sends a copy of the packet, which ends after the
 * options, back to the encapsulating node. */
#ifndef TELEMARK_IOAM_LOOPBACK_P4
#define TELEMARK_IOAM_LOOPBACK_P4

#include "insert.p4"

// The clone session of each port has this number plus that of the port.
const bit<32> LOOPBACK_SESSIONS = 1000;

/* Clones the packet, unless the last copy was sent less than `gap_us` ago. The copy leaves through
 * the port by which the packet arrived. */
control LoopBack(inout ioam_t ioam, in standard_metadata_t standard_metadata) {
    register<bit<48>>(1) last_us;

    action send_copies(bit<128> addr, bit<48> gap_us) {
        bit<48> last;
        bit<48> now = standard_metadata.egress_global_timestamp;
        last_us.read(last, 0);
        ioam.own_addr = addr;
        ioam.is_copy = last == 0 || now - last >= gap_us ? 1w1 : 0;
        last_us.write(0, ioam.is_copy == 1 ? now : last);
    }

    table loopback {
        actions = { send_copies; NoAction; }
        default_action = NoAction();
    }

    apply {
        loopback.apply();
        if (ioam.is_copy == 1) {
            clone_preserving_field_list(
                CloneType.E2E, LOOPBACK_SESSIONS + (bit<32>)standard_metadata.ingress_port,
                CLONE_FIELDS);
        }
    }
}

/* Makes the copy from the clone. The flag is cleared, so that nodes do not copy the copy. */
control WriteCopy(inout headers_t hdr, in ioam_t ioam) {
    apply {
        bit<16> bytes = ((bit<16>)hdr.ioam.hop_by_hop.length + 1) << 3;
        // a router has already replaced the addresses
        if (hdr.ethernet.src_addr == ioam.back_mac) {
            hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        }
        hdr.ethernet.dst_addr = ioam.back_mac;
        hdr.ipv6.dst_addr = hdr.ipv6.src_addr;
        hdr.ipv6.src_addr = ioam.own_addr;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.payload_length = bytes;
        hdr.ioam.hop_by_hop.next_header = PROTOCOL_NONE;
        hdr.ioam.trace.loopback = 0;
        hdr.inner_ipv6.setInvalid();
        hdr.ports.setInvalid();
        truncate(ETHERNET_BYTES + (bit<32>)IPV6_BYTES + (bit<32>)bytes);
    }
}

#endif
