/* INT-MD at transit switches: adds the metadata of this switch to the stack (section "INT-MD
 * Metadata Header Format" of the specification). */
#ifndef TELEMARK_INT_TRANSIT_P4
#define TELEMARK_INT_TRANSIT_P4

#include "lengths.p4"
#include "watch.p4"

/* Adds the metadata of bits 8 to 14: buffer occupancy (v1model does not provide it), and reserved
 * bits. All bits of these words are ones, so the words do not change a checksum. */
control PushUnknown(inout headers_t hdr, in bit<16> instructions) {
    apply {
        bit<8> words = metadata_words(instructions & UNKNOWN_TO_V1MODEL);
        if ((words & 1) != 0) {
            hdr.unknown_1.setValid();
            hdr.unknown_1.value = 0xFFFFFFFF;
        }
        if ((words & 2) != 0) {
            hdr.unknown_2.setValid();
            hdr.unknown_2.value = 0xFFFFFFFFFFFFFFFF;
        }
        if ((words & 4) != 0) {
            hdr.unknown_4.setValid();
            hdr.unknown_4.value = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF;
        }
    }
}

/* Adds the metadata of all instruction bits. If a checksum complement is requested, it compensates
 * the change of the layer 4 checksum. Otherwise, the layer 4 checksum is updated in its header.
 * `sum` is the contribution of earlier changes, and `bytes` is the number of bytes by which the
 * packet grows. */
control PushMetadata(inout headers_t hdr, in hop_t hop, in bit<16> bytes, in bit<32> sum) {
    FillMetadata() fill;
    PushUnknown() unknown;
    ChangeLengths() change_lengths;
    ChangeChecksum() change_checksum;
    bit<32> added = 0;

    apply {
        bit<16> instructions = hdr.int_header.instructions;
        added = sum + sum_of_length(hdr.tcp.isValid(), bytes);
        fill.apply(hdr.metadata, hop, instructions, added);
        if ((instructions & UNKNOWN_TO_V1MODEL) != 0) {
            unknown.apply(hdr, instructions);
        }
        change_lengths.apply(hdr, bytes);
        if ((instructions & COMPLEMENT) != 0) {
            hdr.complement.setValid();
            hdr.complement.value = 16w0 ++ ~folded(added);
        } else {
            change_checksum.apply(hdr, added);
        }
    }
}

/* Adds Hop ML words of metadata, or nothing. A switch adds nothing in three cases: it does not
 * support all instructions, Remaining Hop Count is 0 (flag E), or the packet has no room (flag
 * M). */
control Transit(
    inout headers_t hdr, in hop_t hop, in bit<16> mtu, inout bit<32> event) {
    PushMetadata() push;
    ChangeChecksum() change_checksum;

    action tell(bit<1> hops, bit<1> room) {
        hdr.int_header.hops_exceeded = hdr.int_header.hops_exceeded | hops;
        hdr.int_header.mtu_exceeded = hdr.int_header.mtu_exceeded | room;
    }

    apply {
        bit<8> words = metadata_words(hdr.int_header.instructions);
        bit<16> bytes = (bit<16>)words << 2;
        bit<16> length = (bit<16>)hdr.shim.length + (bit<16>)words;
        bit<7> before = hdr.int_header.version ++ hdr.int_header.discard
            ++ hdr.int_header.hops_exceeded ++ hdr.int_header.mtu_exceeded;
        if (hdr.int_header.remaining_hops == 0 || length > 255) {
            event = HOPS_EXCEEDED;
            tell(1, 0);
        } else if (hdr.int_header.hop_words != words[4:0]) {
            event = NOT_UNDERSTOOD;
        } else if (bytes_of_ip(hdr.ipv4, hdr.ipv6) + (bit<32>)bytes > (bit<32>)mtu) {
            event = MTU_EXCEEDED;
            tell(0, 1);
        } else if (words != 0) {
            hdr.shim.length = length[7:0];
            hdr.int_header.remaining_hops = hdr.int_header.remaining_hops - 1;
            push.apply(hdr, hop, bytes, (bit<32>)words + 0xFFFE);  // 0xFFFE: remaining hop count minus one
        }
        bit<7> after = hdr.int_header.version ++ hdr.int_header.discard
            ++ hdr.int_header.hops_exceeded ++ hdr.int_header.mtu_exceeded;
        if (before != after) {
            change_checksum.apply(hdr, (bit<32>)((after - before) ++ 9w0));
        }
    }
}

#endif
