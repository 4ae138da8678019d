/* What a packet met on its way, as a record: the hops of an INT-MD stack, at places that are always the
 * same. A program includes it behind INT's parser. */
#ifndef TELEMARK_ROCE_PATHS_P4
#define TELEMARK_ROCE_PATHS_P4

#include "../include/hop.p4"
#include "../int/headers.p4"

// Instruction bits 0 to 5: of each hop what a hop record has, in its order.
const bit<16> PATH_INSTRUCTIONS = 0xFC00;
const bit<5> PATH_HOP_WORDS = 8;
const bit<1280> ABSENT = ~1280w0;  // a hop that was not there is all ones

struct path_t {
    @field_list(CLONE_FIELDS)
    bit<1> is_known;  // the stack has what records have
    @field_list(CLONE_FIELDS)
    bit<8> hops;  // on the stack
    @field_list(CLONE_FIELDS)
    bit<2> exceeded;  // E and M of INT's header: hops are missing
    @field_list(CLONE_FIELDS)
    bit<1280> stack;  // the newest five hops, the newest one first
}

header path_record_t {  // behind the hop record of the sink itself
    bit<8> hops;  // on the stack, also those for which there is no place
    bit<5> reserved;
    bit<1> congested;  // the sink's queue was as full as is reported
    bit<1> hops_exceeded;
    bit<1> mtu_exceeded;
    bit<16> reserved_too;
    bit<1280> stack;
}

const bit<16> PATH_RECORD_BYTES = 164;

/* Looks at a stack, and leaves it to be extracted. `words`: all that the shim counts. */
parser SeeStack(packet_in packet, in int_shim_t shim, in int_header_t h, inout path_t path) {
    state start {
        bit<8> words = shim.length - INT_HEADER_WORDS;
        path.hops = words >> 3;
        path.exceeded = h.hops_exceeded ++ h.mtu_exceeded;
        transition select(
            shim.type, h.instructions, h.domain_instructions, h.hop_words, words[2:0], path.hops) {
            (INT_MD, PATH_INSTRUCTIONS, 0, PATH_HOP_WORDS, 0, 0): see_none;
            (INT_MD, PATH_INSTRUCTIONS, 0, PATH_HOP_WORDS, 0, 1): see_1;
            (INT_MD, PATH_INSTRUCTIONS, 0, PATH_HOP_WORDS, 0, 2): see_2;
            (INT_MD, PATH_INSTRUCTIONS, 0, PATH_HOP_WORDS, 0, 3): see_3;
            (INT_MD, PATH_INSTRUCTIONS, 0, PATH_HOP_WORDS, 0, 4): see_4;
            (INT_MD, PATH_INSTRUCTIONS, 0, PATH_HOP_WORDS, 0, 5 .. 31): see_5;
            default: accept;
        }
    }

    state see_none {
        path.stack = ABSENT;
        transition see;
    }

    state see_1 {
        path.stack = packet.lookahead<bit<256>>() ++ ABSENT[1023:0];
        transition see;
    }

    state see_2 {
        path.stack = packet.lookahead<bit<512>>() ++ ABSENT[767:0];
        transition see;
    }

    state see_3 {
        path.stack = packet.lookahead<bit<768>>() ++ ABSENT[511:0];
        transition see;
    }

    state see_4 {
        path.stack = packet.lookahead<bit<1024>>() ++ ABSENT[255:0];
        transition see;
    }

    state see_5 {
        path.stack = packet.lookahead<bit<1280>>();
        transition see;
    }

    state see {
        path.is_known = 1;
        transition accept;
    }
}

control FillPathRecord(inout path_record_t record, in path_t path, in bit<1> congested) {
    apply {
        record.setValid();
        record.hops = path.hops;
        record.reserved = 0;
        record.congested = congested;
        record.hops_exceeded = path.exceeded[1:1];
        record.mtu_exceeded = path.exceeded[0:0];
        record.reserved_too = 0;
        record.stack = path.stack;
    }
}

#endif
