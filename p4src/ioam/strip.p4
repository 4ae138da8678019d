/* Removes all IOAM options of a packet, so that no IOAM data leaves the domain. */
#ifndef TELEMARK_IOAM_STRIP_P4
#define TELEMARK_IOAM_STRIP_P4

#include "packet.p4"

/* Removes the hop-by-hop header if it has only IOAM options and padding. If this program inserted
 * the header, the packet is then as it was before the insertion. Otherwise, other options remain in
 * their order and alignment: the header becomes shorter by a multiple of eight bytes, and up to
 * seven bytes of padding take the place of the IOAM options. Must be applied only if can_strip(). */
control Strip(inout headers_t hdr, in ioam_t ioam) {
    action remove_processed() {
        hdr.options.trace.setInvalid();
        hdr.options.free.setInvalid();
        hdr.options.own.setInvalid();
        hdr.options.filled.setInvalid();
        hdr.options.e2e.setInvalid();
        hdr.options.e2e_data.setInvalid();
        hdr.options.dex.setInvalid();
        hdr.options.dex_data.setInvalid();
    }

    action remove_header() {
        bit<16> bytes = ((bit<16>)hdr.options.hop_by_hop.length + 1) << 3;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length - bytes;
        hdr.ipv6.next_header = hdr.options.hop_by_hop.next_header;
        hdr.options.hop_by_hop.setInvalid();
        hdr.options.trace_pad.setInvalid();
        hdr.options.before[0].setInvalid();
        hdr.options.before[1].setInvalid();
        hdr.options.before[2].setInvalid();
        hdr.options.before[3].setInvalid();
        hdr.options.after[0].setInvalid();
        hdr.options.after[1].setInvalid();
        hdr.options.after[2].setInvalid();
        hdr.options.after[3].setInvalid();
        hdr.options.after[4].setInvalid();
        hdr.options.after[5].setInvalid();
        hdr.options.after[6].setInvalid();
        hdr.options.after[7].setInvalid();
    }

    apply {
        remove_processed();
        if (ioam.other_options == 0) {
            remove_header();
        } else {
            bit<16> units = ioam.ioam_bytes >> 3;
            hdr.ipv6.payload_length = hdr.ipv6.payload_length - (units << 3);
            hdr.options.hop_by_hop.length = hdr.options.hop_by_hop.length - units[7:0];
            bit<8> padding = (bit<8>)ioam.ioam_bytes[2:0];
            if (padding == 1) {
                hdr.pad_1.setValid();
                hdr.pad_1.value = PAD_1;
            } else if (padding != 0) {
                hdr.pad_n.setValid();
                hdr.pad_n.type = PAD_N;
                hdr.pad_n.length = padding - 2;
                if (hdr.pad_n.length[0:0] == 1) {
                    hdr.zero_1.setValid();
                    hdr.zero_1.value = 0;
                }
                if (hdr.pad_n.length[1:1] == 1) {
                    hdr.zero_2.setValid();
                    hdr.zero_2.value = 0;
                }
                if (hdr.pad_n.length[2:2] == 1) {
                    hdr.zero_4.setValid();
                    hdr.zero_4.value = 0;
                }
            }
        }
    }
}

#endif
