/* A hash function that the controller chooses at random (controllers/hash_functions.py).
 *
 * The hash is (a * key + b) mod 2^64. Its upper half, as a fraction, is the position in a table of
 * `width` cells. If a and b are random, positions are pairwise independent (Dietzfelbinger 1996),
 * as the theory of sketches requires. Positions from CRCs with a salt are not independent: if the
 * CRCs of two keys are equal modulo a power of two, they are equal for every salt. */
#ifndef TELEMARK_HASH_FUNCTION_P4
#define TELEMARK_HASH_FUNCTION_P4

#include "headers.p4"

/* Computes a 32-bit key from the five fields of a flow: a CRC-32. */
@noWarn("unused")
control FlowHash(in ipv4_t ipv4, in ports_t ports, out bit<32> flow) {
    apply {
        hash(
            flow, HashAlgorithm.crc32, 32w0,
            { ipv4.src_addr, ipv4.dst_addr, ipv4.protocol, ports.src_port, ports.dst_port },
            64w1 << 32);
    }
}

control HashFunction(in bit<32> key, in bit<32> width, inout bit<32> index) {
    action choose(bit<64> a, bit<64> b) {
        bit<64> hashed = a * (bit<64>)key + b;
        index = (((hashed >> 32) * (bit<64>)width) >> 32)[31:0];
    }

    table function {
        actions = { choose; }
        default_action = choose(0, 0);
    }

    apply {
        function.apply();
    }
}

#endif
