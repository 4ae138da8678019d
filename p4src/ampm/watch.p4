/* Common clock, watch list (list of measured flows), and border of the measurement domain.
 *
 * A block lasts 2^block_shift microseconds of the common clock; block = clock >> block_shift. All
 * times are modulo 2^48. The start time identifies a block, so nothing goes wrong when the clock
 * wraps around. For each packet of a watched flow, the methods read the mark bits. The
 * methods determine the block of the packet (`block_us`), and whether it is the pulse (`pulse`).
 * The records of arrivals and departures depend only on `block_us` and `pulse`.
 *
 * A program declares `struct headers_t` before it includes this file. This struct is the one in
 * include/parser.p4, or has at least its members. */
#ifndef TELEMARK_AMPM_WATCH_P4
#define TELEMARK_AMPM_WATCH_P4

#include "../include/allocation.p4"
#include "../include/headers.p4"

#define AMPM_FLOWS 1024
#define AMPM_CELLS 2 * AMPM_FLOWS

// Layer 4 protocol of an IPv6 packet without the AltMark option. A program that parses other headers
// behind the IPv6 header may define another expression.
#ifndef AMPM_IPV6_PROTOCOL
#define AMPM_IPV6_PROTOCOL(hdr) hdr.ipv6.next_header
#endif

// length of an IPv6 header and an options header with the AltMark option
const bit<16> ENCAPSULATION_BYTES = 48;

// Methods of a flow, as flags.
const bit<8> METHOD_STEP = 1;
const bit<8> METHOD_PULSE = 2;  // double marking together with METHOD_STEP
const bit<8> METHOD_MULTIPLEXED = 4;
const bit<8> METHOD_HASHED = 8;

struct watch_t {
    bit<1> watched;  // the flow of the packet is on the watch list
    bit<1> first;    // this switch is the first of the domain; it sets the marks
    bit<1> last;     // this switch is the last of the domain; it clears the marks
    bit<1> tunnel_end;  // this switch also removes the outer IPv6 header
    bit<6> dscp;        // DSCP outside of the domain; the last switch restores mark bits from it
    bit<8> methods;
    bit<32> flow;     // number of the flow; the controller assigns it
    bit<48> now_us;   // arrival time of the packet on the common clock
    bit<48> offset_us;  // time of the common clock minus time of this switch's clock
    bit<8> block_shift;
    bit<48> block_us;  // start of the packet's block on the common clock
    bit<1> colour;     // colour of the block: the number of the block modulo 2
    bit<1> pulse;      // the packet is the pulse of its block
    bit<32> cell;      // cell of the block's records: 2 * flow + colour
    bit<1> colour_bit;  // marks on the wire: as received, or as set by the first switch
    bit<1> pulse_bit;
}

control Watch(
    inout headers_t hdr, inout watch_t watch, in standard_metadata_t standard_metadata) {
    bit<16> src_port = 0;
    bit<16> dst_port = 0;
    bit<8> protocol = 0;

    // The clock of a switch starts at an arbitrary time. Therefore, the controller measures the
    // offset between this clock and the common clock.
    action set_clock(bit<48> offset_us, bit<8> block_shift) {
        watch.offset_us = offset_us;
        watch.now_us = standard_metadata.ingress_global_timestamp + offset_us;
        watch.block_shift = block_shift;
        bit<48> block = watch.now_us >> block_shift;
        watch.block_us = block << block_shift;
        watch.colour = block[0:0];
    }

    table clock {
        actions = { set_clock; }
        default_action = set_clock(0, 20);
    }

    action watched(bit<16> flow, bit<8> methods) {
        watch.watched = 1;
        watch.flow = (bit<32>)flow;
        watch.methods = methods;
    }

    // Entry at the first switch of a flow. Only this switch sets marks.
    action mark(bit<16> flow, bit<8> methods) {
        watched(flow, methods);
        watch.first = 1;
        watch.colour_bit = 0;
        watch.pulse_bit = 0;
    }

    // Entry at every later switch.
    action observe(bit<16> flow, bit<8> methods) {
        watched(flow, methods);
    }

    // Entry at the last switch.
    action observe_and_clear(bit<16> flow, bit<8> methods, bit<6> dscp) {
        watched(flow, methods);
        watch.last = 1;
        watch.dscp = dscp;
    }

    // Entry at the last switch, if the first switch encapsulates the flow.
    action observe_and_decapsulate(bit<16> flow, bit<8> methods) {
        observe_and_clear(flow, methods, 0);
        watch.tunnel_end = 1;
    }

    /* Entry at the first switch, if the host inserts no option. Only the source of a packet may
     * insert an option (RFC 9343). Therefore, the switch encapsulates the packet (RFC 2473); it is
     * then the source of the outer packet. Traffic class and flow label are copied from the inner
     * packet. `options_type` selects the options header: hop-by-hop, so that all switches measure,
     * or destination, so that only the ends of the tunnel measure. */
    action encapsulate(
        bit<16> flow, bit<8> methods, bit<20> flow_mon_id, bit<8> options_type,
        bit<128> src_addr, bit<128> dst_addr) {
        mark(flow, methods);
        hdr.inner_ipv6 = hdr.ipv6;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length + ENCAPSULATION_BYTES;
        hdr.ipv6.next_header = options_type;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.src_addr = src_addr;
        hdr.ipv6.dst_addr = dst_addr;
        hdr.options.setValid();
        hdr.options.next_header = PROTOCOL_IPV6;
        hdr.options.length = 0;
        hdr.altmark.setValid();
        hdr.altmark.option_type = ALTMARK_OPTION[15:8];
        hdr.altmark.option_length = ALTMARK_OPTION[7:0];
        hdr.altmark.flow_mon_id = flow_mon_id;
        hdr.altmark.reserved = 0;
    }

    /* Match key of a flow: addresses and ports, each with a mask. If a packet has no ports, the
     * ports in the key are 0. Fragments other than the first have no ports. So if both port masks
     * of an entry are 0, all fragments of the flow are marked and counted (RFC 9341 section 4). */
    table watch_list {
        key = {
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.ipv4.protocol: ternary;
            src_port: ternary @name("hdr.ports.src_port");
            dst_port: ternary @name("hdr.ports.dst_port");
        }
        actions = { mark; observe; observe_and_clear; NoAction; }
        default_action = NoAction();
        size = AMPM_FLOWS;
    }

    // Flows whose packets have the AltMark option. RFC 9343 section 5.3 defines the key.
    table watch_list_ipv6 {
        key = {
            hdr.altmark.flow_mon_id: exact;
            hdr.ipv6.src_addr: exact;
            hdr.ipv6.dst_addr: exact;
        }
        actions = { mark; observe; observe_and_clear; observe_and_decapsulate; NoAction; }
        default_action = NoAction();
        size = AMPM_FLOWS;
    }

    // Flows of IPv6 packets without the AltMark option. The key is the same as for IPv4. Either the
    // first switch encapsulates the packets, or the marks are in their DSCP, as in IPv4.
    table watch_list_plain_ipv6 {
        key = {
            hdr.ipv6.src_addr: ternary;
            hdr.ipv6.dst_addr: ternary;
            protocol: ternary @name("hdr.ipv6.next_header");
            src_port: ternary @name("hdr.ports.src_port");
            dst_port: ternary @name("hdr.ports.dst_port");
        }
        actions = { encapsulate; mark; observe; observe_and_clear; NoAction; }
        default_action = NoAction();
        size = AMPM_FLOWS;
    }

    apply {
        clock.apply();
        if (hdr.ports.isValid()) {
            src_port = hdr.ports.src_port;
            dst_port = hdr.ports.dst_port;
        }
        if (hdr.ipv4.isValid() && hdr.ipv4.ihl >= 5) {  // a smaller IHL is invalid
            watch.colour_bit = AMPM_COLOUR(hdr.ipv4.dscp);
            watch.pulse_bit = AMPM_PULSE(hdr.ipv4.dscp);
            watch_list.apply();
        } else if (hdr.ipv6.isValid() && hdr.ipv6.version == 6) {
            if (hdr.altmark.isValid()) {
                watch.colour_bit = hdr.altmark.colour;
                watch.pulse_bit = hdr.altmark.pulse;
                watch_list_ipv6.apply();
            } else {
                protocol = AMPM_IPV6_PROTOCOL(hdr);
                bit<6> dscp = hdr.ipv6.traffic_class[7:2];
                watch.colour_bit = AMPM_COLOUR(dscp);
                watch.pulse_bit = AMPM_PULSE(dscp);
                watch_list_plain_ipv6.apply();
            }
        }
    }
}

/* Finds the block of a packet: the nearest block with the packet's colour (RFC 8321 section 4.3).
 * Because of its delay, a packet may arrive in the first half of the next block. If the clock of
 * the first switch is fast, a packet may arrive in the second half of the previous block. */
control NearestBlock(inout watch_t watch, in bit<1> colour) {
    apply {
        bit<48> length_us = 48w1 << watch.block_shift;
        bit<48> phase_us = watch.now_us - watch.block_us;
        if (watch.colour != colour) {
            watch.colour = colour;
            if (phase_us < length_us >> 1) {
                watch.block_us = watch.block_us - length_us;
            } else {
                watch.block_us = watch.block_us + length_us;
            }
        }
    }
}

/* Removes the outer IPv6 packet, and copies its congestion mark to the inner packet (RFC 6040
 * section 4.2). If the inner packet is not ECN-capable, it passes without this mark. The RFC
 * requires a drop in this case, but this drop would be counted as a loss on the path. */
control Decapsulate(inout headers_t hdr) {
    apply {
        bit<2> outer_ecn = hdr.ipv6.traffic_class[1:0];
        hdr.ipv6 = hdr.inner_ipv6;
        bit<2> inner_ecn = hdr.ipv6.traffic_class[1:0];
        // 0: not ECN-capable; 1, 2: ECT(1), ECT(0); 3: congestion experienced
        if ((outer_ecn == 3 && inner_ecn != 0) || (outer_ecn == 1 && inner_ecn == 2)) {
            hdr.ipv6.traffic_class[1:0] = outer_ecn;
        }
        hdr.options.setInvalid();
        hdr.options_before.setInvalid();
        hdr.altmark.setInvalid();
        hdr.options_after.setInvalid();
        hdr.inner_ipv6.setInvalid();
    }
}

/* Clears the marks of a packet that leaves the domain. Sets the marks of a packet that stays in the
 * domain. */
control LeaveDomain(inout headers_t hdr, inout watch_t watch) {
    Ipv4SetDscp() set_dscp;
    Decapsulate() decapsulate;

    apply {
        if (watch.last == 1) {
            watch.colour_bit = AMPM_COLOUR(watch.dscp);
            watch.pulse_bit = AMPM_PULSE(watch.dscp);
        }
        if (watch.tunnel_end == 1 && hdr.inner_ipv6.isValid()) {
            decapsulate.apply(hdr);
        } else if (hdr.altmark.isValid()) {
            hdr.altmark.colour = watch.colour_bit;
            hdr.altmark.pulse = watch.pulse_bit;
        } else {
            bit<6> dscp = hdr.ipv4.isValid() ? hdr.ipv4.dscp : hdr.ipv6.traffic_class[7:2];
            if ((watch.methods & (METHOD_STEP | METHOD_MULTIPLEXED)) != 0) {
                AMPM_COLOUR(dscp) = watch.colour_bit;
            }
            if ((watch.methods & METHOD_PULSE) != 0) {
                AMPM_PULSE(dscp) = watch.pulse_bit;
            }
            if (!hdr.ipv4.isValid()) {
                hdr.ipv6.traffic_class[7:2] = dscp;
            } else if (dscp != hdr.ipv4.dscp) {
                set_dscp.apply(hdr.ipv4, dscp);
            }
        }
    }
}

#endif
