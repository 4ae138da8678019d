/* Removes all IOAM options of a packet, so that no IOAM data leaves the domain. */
#ifndef TELEMARK_IOAM_STRIP_P4
#define TELEMARK_IOAM_STRIP_P4

#include "packet.p4"

/* Removes the hop-by-hop header if it has only IOAM options and padding. If this program inserted
 * the header, the packet is then as it was before the insertion. Otherwise, other options remain in
 * their order and alignment: the header becomes shorter by a multiple of eight bytes, and up to
 * seven bytes of padding take the place of the IOAM options. Must be applied only if can_strip(). */
control IoamStrip(inout headers_t hdr, in ioam_t ioam) {
    action remove_processed() {
        hdr.ioam.trace.setInvalid();
        hdr.ioam.free.setInvalid();
        hdr.ioam.own.setInvalid();
        hdr.ioam.filled.setInvalid();
        hdr.ioam.first.setInvalid();
        hdr.ioam.e2e.setInvalid();
        hdr.ioam.e2e_data.setInvalid();
        hdr.ioam.dex.setInvalid();
        hdr.ioam.dex_data.setInvalid();
    }

    action remove_header() {
        bit<16> bytes = ((bit<16>)hdr.ioam.hop_by_hop.length + 1) << 3;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length - bytes;
        hdr.ipv6.next_header = hdr.ioam.hop_by_hop.next_header;
        hdr.ioam.hop_by_hop.setInvalid();
        hdr.ioam.trace_pad.setInvalid();
        hdr.ioam.before[0].setInvalid();
        hdr.ioam.before[1].setInvalid();
        hdr.ioam.before[2].setInvalid();
        hdr.ioam.before[3].setInvalid();
        hdr.ioam.after[0].setInvalid();
        hdr.ioam.after[1].setInvalid();
        hdr.ioam.after[2].setInvalid();
        hdr.ioam.after[3].setInvalid();
        hdr.ioam.after[4].setInvalid();
        hdr.ioam.after[5].setInvalid();
        hdr.ioam.after[6].setInvalid();
        hdr.ioam.after[7].setInvalid();
    }

    apply {
        remove_processed();
        if (ioam.other_options == 0) {
            remove_header();
        } else {
            bit<16> units = ioam.ioam_bytes >> 3;
            hdr.ipv6.payload_length = hdr.ipv6.payload_length - (units << 3);
            hdr.ioam.hop_by_hop.length = hdr.ioam.hop_by_hop.length - units[7:0];
            bit<8> padding = (bit<8>)ioam.ioam_bytes[2:0];
            if (padding == 1) {
                hdr.ioam.pad_1.setValid();
                hdr.ioam.pad_1.value = PAD_1;
            } else if (padding != 0) {
                hdr.ioam.pad_n.setValid();
                hdr.ioam.pad_n.type = PAD_N;
                hdr.ioam.pad_n.length = padding - 2;
                if (hdr.ioam.pad_n.length[0:0] == 1) {
                    hdr.ioam.zero_1.setValid();
                    hdr.ioam.zero_1.value = 0;
                }
                if (hdr.ioam.pad_n.length[1:1] == 1) {
                    hdr.ioam.zero_2.setValid();
                    hdr.ioam.zero_2.value = 0;
                }
                if (hdr.ioam.pad_n.length[2:2] == 1) {
                    hdr.ioam.zero_4.setValid();
                    hdr.ioam.zero_4.value = 0;
                }
            }
        }
    }
}

#endif
