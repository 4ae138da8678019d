/* Node data: the values that this node records about a packet. */
#ifndef TELEMARK_IOAM_NODE_DATA_P4
#define TELEMARK_IOAM_NODE_DATA_P4

#include "packet.p4"

/* Splits microseconds into seconds and microseconds (POSIX time of RFC 9197, 5.3). v1model has no
 * division. The first estimate is at most two seconds too small. Valid for times before the year
 * 2100. */
control SplitTime(in bit<64> time_us, out bit<32> seconds, out bit<32> fraction) {
    apply {
        // 2^20 us are 1.048576 s. The factor is 1.048576 * 2^32, rounded down.
        bit<64> whole = ((time_us >> 20) * 4503599627) >> 32;
        bit<64> rest = time_us - whole * 1000000;
        if (rest >= 1000000) {
            whole = whole + 1;
            rest = rest - 1000000;
        }
        if (rest >= 1000000) {
            whole = whole + 1;
            rest = rest - 1000000;
        }
        seconds = whole[31:0];
        fraction = rest[31:0];
    }
}

/* Sets the requested node data. If v1model does not know a field, all its bits are ones: checksum
 * complement, buffer occupancy, and fields of undefined bits. The opaque state snapshot has no
 * schema. */
control FillNodeData(
    inout node_data_t data, in ioam_t ioam, in hop_t hop, in bit<8> hop_limit,
    in bit<24> wanted) {
    SplitTime() split_time;
    bit<32> seconds;
    bit<32> fraction;

    apply {
        if ((wanted & 0x800000) != 0) {
            data.hop_node.setValid();
            data.hop_node.value = hop_limit ++ hop.node_id[23:0];
        }
        if ((wanted & 0x400000) != 0) {
            data.interfaces.setValid();
            data.interfaces.value = 7w0 ++ hop.ingress_port ++ 7w0 ++ hop.egress_port;
        }
        if ((wanted & 0x300000) != 0) {
            split_time.apply(ioam.received_us, seconds, fraction);
            if ((wanted & 0x200000) != 0) {
                data.seconds.setValid();
                data.seconds.value = seconds;
            }
            if ((wanted & 0x100000) != 0) {
                data.fraction.setValid();
                data.fraction.value = fraction;
            }
        }
        if ((wanted & 0x080000) != 0) {
            data.transit_delay.setValid();
            // nanoseconds in 31 bits; the first bit is set if the delay was too long
            data.transit_delay.value =
                hop.latency_us > 2147483 ? 32w0x80000000 : hop.latency_us * 1000;
        }
        if ((wanted & 0x040000) != 0) {
            data.namespace_data.setValid();
            data.namespace_data.value = ioam.namespace_data;
        }
        if ((wanted & 0x020000) != 0) {
            data.queue_depth.setValid();
            data.queue_depth.value = (bit<32>)hop.waiting_packets;
        }
        if ((wanted & 0x010000) != 0) {
            data.checksum.setValid();
            data.checksum.value = 0xFFFFFFFF;
        }
        if ((wanted & 0x008000) != 0) {
            data.hop_node_wide.setValid();
            data.hop_node_wide.value = hop_limit ++ ioam.node_wide;
        }
        if ((wanted & 0x004000) != 0) {
            data.interfaces_wide.setValid();
            data.interfaces_wide.value = 23w0 ++ hop.ingress_port ++ 23w0 ++ hop.egress_port;
        }
        if ((wanted & 0x002000) != 0) {
            data.namespace_data_wide.setValid();
            data.namespace_data_wide.value = ioam.namespace_data_wide;
        }
        if ((wanted & 0x001000) != 0) {
            data.buffer_occupancy.setValid();
            data.buffer_occupancy.value = 0xFFFFFFFF;
        }
        if ((wanted & UNDEFINED) != 0) {
            bit<8> words = node_words(wanted & UNDEFINED);
            if (words[0:0] == 1) {
                data.undefined_1.setValid();
                data.undefined_1.value = 0xFFFFFFFF;
            }
            if (words[1:1] == 1) {
                data.undefined_2.setValid();
                data.undefined_2.value = 0xFFFFFFFFFFFFFFFF;
            }
            if (words[2:2] == 1) {
                data.undefined_4.setValid();
                data.undefined_4.value = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF;
            }
            if (words[3:3] == 1) {
                data.undefined_8.setValid();
                data.undefined_8.value =
                    0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF;
            }
        }
        if ((wanted & OPAQUE) != 0) {
            data.opaque.setValid();
            data.opaque.value = 0x00FFFFFF;  // no words, no schema
        }
    }
}

/* Returns the words that a node adds to a trace option with this type. */
bit<8> words_of_node(in bit<24> trace_type) {
    return node_words(trace_type) + (bit<8>)(trace_type & OPAQUE)[1:1];
}

#endif
