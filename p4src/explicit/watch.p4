/* Watch list of the observer, and the bits of a packet.
 *
 * A short header (RFC 9000 section 17.3.1) begins with the byte below. It has the spin bit S, and
 * two bits whose meaning depends on the scheme (RFC 9506 section 6.1). RFC 9000 reserves these two
 * bits and hides them by header protection. So hosts that use a scheme must leave them unprotected.
 *
 *   0x80  0x40  0x20  0x10  0x08  0x04  0x03
 *     0     1     S   bit_1 bit_2   key   length of the packet number
 *
 *   scheme          bit_1        bit_2                   in RFC 9506
 *   SCHEME_SDT      D  delay     T  round-trip loss      1
 *   SCHEME_SQL      Q  square    L  loss event           2A
 *   SCHEME_SQR      Q  square    R  reflection square    2B
 */
#ifndef TELEMARK_EXPLICIT_WATCH_P4
#define TELEMARK_EXPLICIT_WATCH_P4

#include "../include/parser.p4"

#define EXPLICIT_STREAMS 1024  // two for each connection

const bit<8> SCHEME_SDT = 1;
const bit<8> SCHEME_SQL = 2;
const bit<8> SCHEME_SQR = 3;

const bit<2> SHORT_HEADER = 0b01;  // header form 0, fixed bit 1
const bit<16> UDP_BYTES = 8;

struct stream_t {
    bit<8> first_byte;  // of the UDP payload; 0 if there is none
    bit<1> watched;
    bit<32> index;   // 2 * connection + direction; the opposite direction is index ^ 1
    bit<8> scheme;
    bit<32> block;   // length N of a square block, in packets
    bit<32> threshold;  // marking block threshold X, in packets
    bit<48> limit_us;   // longest interval between delay samples that counts as RTT
    bit<1> spin;
    bit<1> bit_1;
    bit<1> bit_2;
    bit<1> has_square;
    bit<1> has_reflection;
    bit<1> spin_edge;  // the spin bit differs from that of the previous packet
}

control Watch(in headers_t hdr, inout stream_t stream) {
    action observe(
        bit<16> index, bit<8> scheme, bit<16> block, bit<16> threshold, bit<48> limit_us) {
        stream.watched = 1;
        stream.index = (bit<32>)index;
        stream.scheme = scheme;
        stream.block = (bit<32>)block;
        stream.threshold = (bit<32>)threshold;
        stream.limit_us = limit_us;
        stream.spin = stream.first_byte[5:5];
        stream.bit_1 = stream.first_byte[4:4];
        stream.bit_2 = stream.first_byte[3:3];
        stream.has_square = scheme == SCHEME_SQL || scheme == SCHEME_SQR ? 1w1 : 1w0;
        stream.has_reflection = scheme == SCHEME_SQR ? 1w1 : 1w0;
    }

    table watch_list {
        key = {
            hdr.ipv4.src_addr: exact;
            hdr.ipv4.dst_addr: exact;
            hdr.ports.src_port: exact;
            hdr.ports.dst_port: exact;
        }
        actions = { observe; NoAction; }
        default_action = NoAction();
        size = EXPLICIT_STREAMS;
    }

    apply {
        // The UDP length shows whether the first byte is payload or the padding of a short frame.
        if (hdr.ipv4.isValid() && hdr.ports.isValid() && hdr.ipv4.protocol == PROTOCOL_UDP
            && hdr.ports.word[31:16] > UDP_BYTES && stream.first_byte[7:6] == SHORT_HEADER) {
            watch_list.apply();
        }
    }
}

#endif
