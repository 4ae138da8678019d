/* Parser of RoCE packets from BTH on. Responses (ACK, NAK, atomic ACK) are parsed completely. In
 * other packets, only the BTH is parsed. */
#ifndef TELEMARK_ROCE_PARSER_P4
#define TELEMARK_ROCE_PARSER_P4

#include "headers.p4"

parser AnswerParser(
    packet_in packet, out bth_t bth, out aeth_t aeth, out atomic_ack_t atomic_ack,
    out icrc_t icrc) {
    state start {
        packet.extract(bth);
        transition select(bth.opcode) {
            ACKNOWLEDGE: parse_aeth;
            ATOMIC_ACKNOWLEDGE: parse_atomic_ack;
            default: accept;
        }
    }

    state parse_aeth {
        packet.extract(aeth);
        packet.extract(icrc);
        transition accept;
    }

    state parse_atomic_ack {
        packet.extract(aeth);
        packet.extract(atomic_ack);
        packet.extract(icrc);
        transition accept;
    }
}

#endif
