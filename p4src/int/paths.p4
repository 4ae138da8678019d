/* Reads the hops of an INT-MD stack at fixed positions, before the INT parser. A program defines
 * PATH_INSTRUCTIONS (the metadata of each hop) and PATH_HOP_LOG (each hop has 2^PATH_HOP_LOG
 * words). */
#ifndef TELEMARK_INT_PATHS_P4
#define TELEMARK_INT_PATHS_P4

#include "../include/hop.p4"
#include "headers.p4"

#define PATH_HOP_BITS (32 << PATH_HOP_LOG)

// If a hop is missing, all its bits are ones.
const bit<(5 * PATH_HOP_BITS)> ABSENT = ~(bit<(5 * PATH_HOP_BITS)>)0;

struct int_path_t {
    @field_list(CLONE_FIELDS)
    bit<1> is_known;  // the stack has the metadata that are needed
    @field_list(CLONE_FIELDS)
    bit<8> hops;  // number of hops on the stack
    @field_list(CLONE_FIELDS)
    bit<2> exceeded;  // flags E and M of the INT header; if one is set, hops are missing
    @field_list(CLONE_FIELDS)
    bit<(5 * PATH_HOP_BITS)> stack;  // the five newest hops; the newest is first
}

/* Reads a stack without extracting it. `words` is the length in the shim. */
parser ReadStack(packet_in packet, in int_shim_t shim, in int_header_t h, inout int_path_t path) {
    state start {
        bit<8> words = shim.length - INT_HEADER_WORDS;
        bit<8> hop_words = 1 << PATH_HOP_LOG;
        path.hops = words >> PATH_HOP_LOG;
        path.exceeded = h.hops_exceeded ++ h.mtu_exceeded;
        // A single key combines two values, because BMv2's JSON does not allow constant keys such
        // as `words & 0`.
        transition select(
            shim.type, h.instructions, h.domain_instructions,
            ((bit<8>)h.hop_words ^ hop_words) | (words & (hop_words - 1)), path.hops) {
            (INT_MD, PATH_INSTRUCTIONS, 0, 0, 0): see_none;
            (INT_MD, PATH_INSTRUCTIONS, 0, 0, 1): see_1;
            (INT_MD, PATH_INSTRUCTIONS, 0, 0, 2): see_2;
            (INT_MD, PATH_INSTRUCTIONS, 0, 0, 3): see_3;
            (INT_MD, PATH_INSTRUCTIONS, 0, 0, 4): see_4;
            (INT_MD, PATH_INSTRUCTIONS, 0, 0, 5 .. 255): see_5;
            default: accept;
        }
    }

    state see_none {
        path.stack = ABSENT;
        transition see;
    }

    state see_1 {
        path.stack =
            packet.lookahead<bit<PATH_HOP_BITS>>() ++ ABSENT[4 * PATH_HOP_BITS - 1:0];
        transition see;
    }

    state see_2 {
        path.stack =
            packet.lookahead<bit<(2 * PATH_HOP_BITS)>>() ++ ABSENT[3 * PATH_HOP_BITS - 1:0];
        transition see;
    }

    state see_3 {
        path.stack =
            packet.lookahead<bit<(3 * PATH_HOP_BITS)>>() ++ ABSENT[2 * PATH_HOP_BITS - 1:0];
        transition see;
    }

    state see_4 {
        path.stack =
            packet.lookahead<bit<(4 * PATH_HOP_BITS)>>() ++ ABSENT[PATH_HOP_BITS - 1:0];
        transition see;
    }

    state see_5 {
        path.stack = packet.lookahead<bit<(5 * PATH_HOP_BITS)>>();
        transition see;
    }

    state see {
        path.is_known = 1;
        transition accept;
    }
}

#endif
