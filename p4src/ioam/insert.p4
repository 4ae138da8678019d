/* Encapsulating and transit nodes: insert options, and add node data to a trace option. */
#ifndef TELEMARK_IOAM_INSERT_P4
#define TELEMARK_IOAM_INSERT_P4

#include "node_data.p4"

const bit<16> IPV6_BYTES = 40;

/* Makes `words` words of zeros. */
control MakeSpace(inout free_space_t space, in bit<8> words) {
    apply {
        if (words[0:0] == 1) {
            space.of_1.setValid();
            space.of_1.value = 0;
        }
        if (words[1:1] == 1) {
            space.of_2.setValid();
            space.of_2.value = 0;
        }
        if (words[2:2] == 1) {
            space.of_4.setValid();
            space.of_4.value = 0;
        }
        if (words[3:3] == 1) {
            space.of_8.setValid();
            space.of_8.value = 0;
        }
        if (words[4:4] == 1) {
            space.of_16.setValid();
            space.of_16.value = 0;
        }
        if (words[5:5] == 1) {
            space.of_32.setValid();
            space.of_32.value = 0;
        }
    }
}

/* Inserts a hop-by-hop header with the options of the flow. With a tunnel, it also inserts an outer
 * IPv6 header. A packet that already has a hop-by-hop header stays as it is. `is_done` says whether
 * the packet has the options. */
control InsertOptions(
    inout headers_t hdr, in ioam_t ioam, in hop_t hop, in bit<16> mtu, out bit<1> is_done,
    inout bit<32> event) {
    FillNodeData() fill;
    SplitTime() split_time;
    MakeSpace() make_space;
    register<bit<64>>(1024) numbers;
    bit<64> number = 0;
    bit<32> seconds;
    bit<32> fraction;

    // Sequence number of E2E and DEX options; each flow has its own.
    action count_packet() {
        numbers.read(number, ioam.flow);
        numbers.write(ioam.flow, number + 1);
    }

    action put_trace(bit<8> list_words, bit<8> own_words, bit<8> remaining) {
        hdr.ioam.trace.setValid();
        hdr.ioam.trace.option_type = IOAM_CHANGEABLE;
        hdr.ioam.trace.option_length = TRACE_BYTES + (list_words << 2);
        hdr.ioam.trace.reserved = 0;
        hdr.ioam.trace.type = ioam.trace_option;
        hdr.ioam.trace.namespace_id = ioam.namespace_id;
        hdr.ioam.trace.node_words = own_words[4:0];
        hdr.ioam.trace.overflow = 0;
        hdr.ioam.trace.loopback = ioam.loopback;
        hdr.ioam.trace.active = ioam.active;
        hdr.ioam.trace.undefined = 0;
        hdr.ioam.trace.remaining = remaining[6:0];
        hdr.ioam.trace.trace_type = ioam.trace_type;
        hdr.ioam.trace.last_reserved = 0;
    }

    action put_e2e(bit<8> words) {
        hdr.ioam.e2e.setValid();
        hdr.ioam.e2e.option_type = IOAM_UNCHANGED;
        hdr.ioam.e2e.option_length = 6 + (words << 2);
        hdr.ioam.e2e.reserved = 0;
        hdr.ioam.e2e.type = EDGE_TO_EDGE;
        hdr.ioam.e2e.namespace_id = ioam.namespace_id;
        hdr.ioam.e2e.e2e_type = ioam.e2e_type;
    }

    action put_dex(bit<8> words) {
        hdr.ioam.dex.setValid();
        hdr.ioam.dex.option_type = IOAM_UNCHANGED;
        hdr.ioam.dex.option_length = TRACE_BYTES + (words << 2);
        hdr.ioam.dex.reserved = 0;
        hdr.ioam.dex.type = DIRECT_EXPORT;
        hdr.ioam.dex.namespace_id = ioam.namespace_id;
        hdr.ioam.dex.flags = 0;
        hdr.ioam.dex.extension_flags = ioam.dex_extensions;
        hdr.ioam.dex.trace_type = ioam.trace_type;
        hdr.ioam.dex.last_reserved = 0;
    }

    action put_header(bit<16> bytes) {
        hdr.ioam.hop_by_hop.setValid();
        hdr.ioam.hop_by_hop.next_header = hdr.ipv6.next_header;
        hdr.ioam.hop_by_hop.length = (bytes >> 3)[7:0] - 1;
        hdr.ioam.lead.setValid();
        hdr.ioam.lead.value = PAD_N ++ 8w0;
        hdr.ipv6.next_header = PROTOCOL_HOP_BY_HOP;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length + bytes;
    }

    /* Writes the outer header. Traffic class and flow label are those of the inner header. */
    action put_tunnel() {
        hdr.ioam.carried_ipv6 = hdr.ipv6;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length + IPV6_BYTES;
        hdr.ipv6.next_header = PROTOCOL_IPV6;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.src_addr = ioam.tunnel_src;
        hdr.ipv6.dst_addr = ioam.tunnel_dst;
    }

    apply {
        is_done = 0;
        bit<8> own_words = 0;
        bit<8> list_words = 0;
        bit<8> remaining = 0;
        bit<8> words = 1;  // start of the hop-by-hop header, and `lead`
        if (ioam.has_trace == 1) {
            own_words = words_of_node(ioam.trace_type);
            list_words = ioam.trace_words;
            remaining = ioam.trace_words;
            if (own_words <= ioam.trace_words && ioam.is_known == 1) {
                remaining = ioam.trace_words - own_words;
                if (ioam.trace_option == INCREMENTAL) {
                    list_words = own_words;
                }
            } else if (ioam.trace_option == INCREMENTAL) {
                list_words = 0;
            }
            words = words + 3 + list_words;
        }
        bit<8> e2e_words = (bit<8>)(ioam.e2e_type >> 15 << 1)[1:0]
            + (bit<8>)ioam.e2e_type[14:14] + (bit<8>)ioam.e2e_type[13:13]
            + (bit<8>)ioam.e2e_type[12:12];
        if (ioam.e2e_type != 0) {
            words = words + 2 + e2e_words;
        }
        bit<8> dex_words = (bit<8>)ioam.dex_extensions[7:7] + (bit<8>)ioam.dex_extensions[6:6];
        if (ioam.has_dex == 1) {
            words = words + 3 + dex_words;
        }
        bit<1> is_odd = words[0:0];
        words = words + (bit<8>)is_odd;
        bit<16> bytes = (bit<16>)words << 2;
        bit<32> length = 40 + (bit<32>)hdr.ipv6.payload_length + (bit<32>)bytes;
        if (ioam.has_tunnel == 1) {
            length = length + 40;
        }
        if (hdr.ipv6.next_header == PROTOCOL_HOP_BY_HOP) {
            event = IOAM_NOT_POSSIBLE;
        } else if (length > (bit<32>)mtu) {
            event = IOAM_NO_ROOM;
        } else {
            is_done = 1;
            count_packet();
            if (ioam.has_tunnel == 1) {
                put_tunnel();
            }
            put_header(bytes);
            if (ioam.has_trace == 1) {
                put_trace(list_words, node_words(ioam.trace_type), remaining);
                if (remaining == ioam.trace_words) {
                    if (ioam.is_known == 1) {
                        hdr.ioam.trace.overflow = 1;
                        event = IOAM_OVERFLOWED;
                    }
                } else {
                    fill.apply(hdr.ioam.data, ioam, hop, hdr.ipv6.hop_limit, ioam.trace_type);
                }
                if (ioam.trace_option == PREALLOCATED) {
                    make_space.apply(hdr.ioam.space, remaining);
                }
            }
            if (is_odd == 1) {
                hdr.ioam.trace_pad.setValid();
                hdr.ioam.trace_pad.value = PAD_OF_4;
            }
            if (ioam.e2e_type != 0) {
                put_e2e(e2e_words);
                if ((ioam.e2e_type & SEQUENCE_64) != 0) {
                    hdr.ioam.new_e2e.sequence_64.setValid();
                    hdr.ioam.new_e2e.sequence_64.value = number;
                }
                if ((ioam.e2e_type & SEQUENCE_32) != 0) {
                    hdr.ioam.new_e2e.sequence_32.setValid();
                    hdr.ioam.new_e2e.sequence_32.value = number[31:0];
                }
                split_time.apply(ioam.received_us, seconds, fraction);
                if ((ioam.e2e_type & E2E_SECONDS) != 0) {
                    hdr.ioam.new_e2e.seconds.setValid();
                    hdr.ioam.new_e2e.seconds.value = seconds;
                }
                if ((ioam.e2e_type & E2E_FRACTION) != 0) {
                    hdr.ioam.new_e2e.fraction.setValid();
                    hdr.ioam.new_e2e.fraction.value = fraction;
                }
            }
            if (ioam.has_dex == 1) {
                put_dex(dex_words);
                if ((ioam.dex_extensions & DEX_FLOW) != 0) {
                    hdr.ioam.new_dex_flow.setValid();
                    hdr.ioam.new_dex_flow.value = ioam.flow;
                }
                if ((ioam.dex_extensions & DEX_SEQUENCE) != 0) {
                    hdr.ioam.new_dex_sequence.setValid();
                    hdr.ioam.new_dex_sequence.value = number[31:0];
                }
            }
        }
    }
}

/* Adds the data of this node to the trace option. If there is no space, the O flag is set. A node
 * adds nothing if NodeLen contradicts the trace type, or if the O flag is already set. */
control AddNodeData(
    inout headers_t hdr, in ioam_t ioam, in hop_t hop, in bit<16> mtu, inout bit<32> event) {
    FillNodeData() fill;

    action grow(bit<8> bytes) {
        hdr.ioam.trace.option_length = hdr.ioam.trace.option_length + bytes;
    }

    apply {
        bit<8> words = words_of_node(hdr.ioam.trace.trace_type);
        bit<8> remaining = (bit<8>)hdr.ioam.trace.remaining;
        bit<8> bytes = words << 2;
        // growth of the header, a multiple of eight bytes
        bit<16> growth = 0;
        bit<1> has_space = words <= remaining ? 1w1 : 0;
        if (hdr.ioam.trace.type == INCREMENTAL) {
            growth = (bit<16>)bytes;
            if (words[0:0] == 1) {
                growth = hdr.ioam.trace_pad.isValid() ? growth - 4 : growth + 4;
            }
            bit<16> length = (bit<16>)hdr.ioam.trace.option_length + (bit<16>)bytes;
            bit<16> units = (bit<16>)hdr.ioam.hop_by_hop.length + (growth >> 3);
            if (length > 255 || units > 255
                || (bit<32>)hdr.ipv6.payload_length + 40 + (bit<32>)growth > (bit<32>)mtu) {
                has_space = 0;
            }
        }
        if ((bit<8>)hdr.ioam.trace.node_words != node_words(hdr.ioam.trace.trace_type)
            || words == 0) {
            event = IOAM_MALFORMED;
        } else if (hdr.ioam.trace.overflow == 1) {
            // an earlier node had no space, so no later node may add data
        } else if (has_space == 0) {
            hdr.ioam.trace.overflow = 1;
            event = IOAM_OVERFLOWED;
        } else {
            hdr.ioam.trace.remaining = (remaining - words)[6:0];
            fill.apply(
                hdr.ioam.data, ioam, hop, hdr.ipv6.hop_limit, hdr.ioam.trace.trace_type);
            if (hdr.ioam.trace.type == INCREMENTAL) {
                grow(bytes);
                hdr.ioam.hop_by_hop.length =
                    hdr.ioam.hop_by_hop.length + (growth >> 3)[7:0];
                hdr.ipv6.payload_length = hdr.ipv6.payload_length + growth;
                if (words[0:0] == 1) {
                    if (hdr.ioam.trace_pad.isValid()) {
                        hdr.ioam.trace_pad.setInvalid();
                    } else {
                        hdr.ioam.trace_pad.setValid();
                        hdr.ioam.trace_pad.value = PAD_OF_4;
                    }
                }
            } else {
                hdr.ioam.own.setInvalid();
            }
        }
    }
}

#endif
