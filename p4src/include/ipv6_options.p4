/* Parser of an IPv6 options header that contains the AltMark option (RFC 9343), alone or next to
 * other options. The header is a hop-by-hop header or a destination options header. */
#ifndef TELEMARK_IPV6_OPTIONS_P4
#define TELEMARK_IPV6_OPTIONS_P4

#include "headers.p4"

/* Extracts the header if the AltMark option ends within the first 32 bytes of the header.
 * Otherwise, extracts nothing. `following` is the protocol after the header. It is PROTOCOL_NONE if
 * the header was not extracted to its end, because it is longer than 32 bytes. */
parser AltmarkParser(
    packet_in packet, out options_header_t options, out other_options_t before,
    out altmark_t altmark, out other_options_t after, out bit<8> following) {
    bit<256> window = 0;  // rest of the first 32 bytes, from the option that is examined next
    bit<16> left = 0;     // number of bytes in the window
    bit<16> skipped = 0;  // number of bytes of other options before the window
    bit<16> size = 0;     // length of the option that is skipped

    state start {
        following = PROTOCOL_NONE;
        transition select(packet.lookahead<bit<32>>()[23:0]) {
            ALTMARK_ALONE: extract_alone;
            default: select_window;
        }
    }

    state extract_alone {
        packet.extract(options);
        packet.extract(altmark);
        following = options.next_header;
        transition accept;
    }

    state select_window {
        transition select(packet.lookahead<bit<16>>()[7:0]) {
            0: accept;  // no room for another option next to AltMark
            1: window_of_16;
            2: window_of_24;
            default: window_of_32;
        }
    }

    state window_of_16 {
        window = packet.lookahead<bit<128>>()[111:0] ++ 144w0;
        left = 14;
        transition examine;
    }

    state window_of_24 {
        window = packet.lookahead<bit<192>>()[175:0] ++ 80w0;
        left = 22;
        transition examine;
    }

    state window_of_32 {
        window = packet.lookahead<bit<256>>()[239:0] ++ 16w0;
        left = 30;
        transition examine;
    }

    state examine {
        transition select(left, window[255:240]) {
            (6 .. 30, ALTMARK_OPTION): extract_options;
            (2 .. 30, OPTION_PAD1 &&& 0xFF00): skip_pad1;
            (2 .. 30, _): skip_option;
            default: accept;
        }
    }

    state skip_pad1 {
        size = 1;
        transition skip;
    }

    state skip_option {
        size = 2 + (bit<16>)window[247:240];
        transition skip;
    }

    state skip {
        transition select(left |-| size) {
            0: accept;  // the option ends the window, or exceeds it
            default: skip_bytes;
        }
    }

    state skip_bytes {
        window = window << (bit<8>)(size << 3);
        left = left - size;
        skipped = skipped + size;
        transition examine;
    }

    state extract_options {
        packet.extract(options);
        packet.extract(before, (bit<32>)skipped << 3);
        packet.extract(altmark);
        transition select(options.length) {
            0 .. 3: extract_rest;  // the window was the whole header
            default: accept;
        }
    }

    state extract_rest {
        packet.extract(after, (bit<32>)(left - 6) << 3);
        following = options.next_header;
        transition accept;
    }
}

#endif
