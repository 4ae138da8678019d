/* INT at the source: inserts INT headers, and marks the packet. */
#ifndef TELEMARK_INT_SOURCE_P4
#define TELEMARK_INT_SOURCE_P4

#include "transit.p4"

/* Sets the mark of INT. The shim and the INT header may be filled later. */
control Mark(inout headers_t hdr, in bit<2> mark, inout bit<32> sum) {
    SetDscp() set_dscp;
    SetProtocol() set_protocol;

    action set_port() {
        hdr.shim.npt = NPT_UDP;
        hdr.shim.original = hdr.ports.dst_port;
        sum = (bit<32>)~hdr.ports.dst_port + INT_UDP_PORT;
        hdr.ports.dst_port = INT_UDP_PORT;
    }

    /* Inserts a UDP header before the original header. The source port depends on the original
     * ports, so that ECMP distributes flows as before. */
    action insert_udp(bit<8> protocol, bit<16> bytes) {
        hdr.shim.npt = NPT_L4;
        hdr.shim.original = (bit<16>)protocol;
        hdr.inner_ports = hdr.ports;
        hdr.inner_tcp = hdr.tcp;
        hdr.inner_tcp_options = hdr.tcp_options;
        hdr.tcp.setInvalid();
        hdr.tcp_options.setInvalid();
        hdr.ports.src_port = hdr.inner_ports.src_port ^ hdr.inner_ports.dst_port;
        hdr.ports.dst_port = INT_UDP_PORT;
        hdr.ports.word = bytes ++ 16w0;  // checksum 0 means none; the length grows with the headers
    }

    apply {
        bit<6> dscp = hdr.ipv6.traffic_class[7:2];
        bit<8> protocol = hdr.ipv6.next_header;
        bit<16> bytes = hdr.ipv6.payload_length;
        if (hdr.ipv4.isValid()) {
            dscp = hdr.ipv4.dscp;
            protocol = hdr.ipv4.protocol;
            bytes = hdr.ipv4.total_length - ((bit<16>)hdr.ipv4.ihl << 2);
        }
        hdr.shim.setValid();
        hdr.shim.npt = NPT_NONE;
        hdr.shim.reserved = 0;
        hdr.shim.original = 8w0 ++ dscp ++ 2w0;
        if (mark == MARK_DSCP) {
            set_dscp.apply(hdr, INT_DSCP | (dscp & ~INT_DSCP_MASK));
        } else if (mark == MARK_PORT) {
            set_port();
        } else if (mark == MARK_NEW_UDP) {
            insert_udp(protocol, bytes);
            set_protocol.apply(hdr, PROTOCOL_UDP);
        } else {
            hdr.marker.setValid();
            hdr.marker.marker = PROBE_MARKER;
            sum = halves(PROBE_MARKER[63:32]) + halves(PROBE_MARKER[31:0]);
        }
    }
}

/* Inserts INT-MX headers, or INT-MD headers and the metadata of the source. If these metadata do
 * not fit, INT-MD headers with flag M are inserted without metadata. Some packets pass unchanged:
 * packets without UDP or TCP header, fragments, and packets without room for INT headers. */
control Source(
    inout headers_t hdr, inout int_watch_t watch, in hop_t hop, in bit<16> mtu,
    inout bit<32> event) {
    Mark() mark;
    PushMetadata() push;
    ChangeLengths() change_lengths;
    ChangeChecksum() change_checksum;
    bit<32> sum = 0;

    action fill(bit<4> type, bit<8> words, bit<8> length) {
        hdr.shim.type = type;
        hdr.shim.length = length;
        hdr.int_header.setValid();
        hdr.int_header.version = INT_VERSION;
        hdr.int_header.discard = 0;
        hdr.int_header.hops_exceeded = 0;
        hdr.int_header.mtu_exceeded = 0;
        hdr.int_header.reserved = 0;
        hdr.int_header.hop_words = words[4:0];
        hdr.int_header.remaining_hops = watch.hops;
        hdr.int_header.instructions = watch.instructions;
        hdr.int_header.domain_id = 0;
        hdr.int_header.domain_instructions = 0;
        hdr.int_header.domain_flags = 0;
    }

    apply {
        bool is_fragment = hdr.ipv4.isValid()
            && (hdr.ipv4.fragment_offset != 0 || (hdr.ipv4.flags & 1) != 0);
        bit<16> bytes = watch.mark >= MARK_NEW_UDP ? INT_BYTES + 8 : INT_BYTES;
        bit<8> words = 0;
        if (watch.mode == EMBED_DATA) {
            words = metadata_words(watch.instructions);
        }
        bit<32> room = (bit<32>)mtu - bytes_of_ip(hdr.ipv4, hdr.ipv6) - (bit<32>)bytes;
        if (!hdr.ports.isValid() || is_fragment
            || (watch.mark == MARK_PORT && hdr.tcp.isValid())) {
            event = NOT_POSSIBLE;
        } else if (room[31:31] == 1) {
            event = NO_ROOM;
        } else {
            mark.apply(hdr, watch.mark, sum);
            watch.is_int = 1;
            if (watch.mode == EMBED_INSTRUCTIONS) {
                fill(INT_MX, 0, INT_HEADER_WORDS);
            } else if (room < (bit<32>)words << 2) {
                event = MTU_EXCEEDED;
                fill(INT_MD, words, INT_HEADER_WORDS);
                hdr.int_header.mtu_exceeded = 1;
            } else {
                fill(INT_MD, words, INT_HEADER_WORDS + words);
                hdr.int_header.remaining_hops = words == 0 ? watch.hops : watch.hops - 1;
            }
            sum = sum + sum_of_headers(hdr.shim, hdr.int_header);
            if (hdr.shim.length > INT_HEADER_WORDS) {
                push.apply(hdr, hop, bytes + ((bit<16>)words << 2), sum);
            } else {
                change_lengths.apply(hdr, bytes);
                sum = sum + sum_of_length(hdr.tcp.isValid(), bytes);
                change_checksum.apply(hdr, sum);
            }
        }
    }
}

#endif
