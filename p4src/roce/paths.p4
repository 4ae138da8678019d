/* Record of the path of a packet: the hops of an INT-MD stack. Include this file after INT's
 * parser. */
#ifndef TELEMARK_ROCE_PATHS_P4
#define TELEMARK_ROCE_PATHS_P4

// Instruction bits 0 to 5. They are the fields of a hop record, in the same order.
#define PATH_INSTRUCTIONS 0xFC00
#define PATH_HOP_LOG 3

#include "../int/paths.p4"

header path_record_t {  // follows the hop record of the sink
    bit<8> hops;  // number of hops on the stack, including hops that do not fit here
    bit<5> reserved;
    bit<1> congested;  // the queue of the sink reached the congestion threshold
    bit<1> hops_exceeded;
    bit<1> mtu_exceeded;
    bit<16> reserved_too;
    bit<1280> stack;
}

const bit<16> PATH_RECORD_BYTES = 164;

control FillPathRecord(inout path_record_t record, in int_path_t path, in bit<1> congested) {
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
