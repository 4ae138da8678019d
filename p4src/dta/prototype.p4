/* Converts reports of the published prototype to Telemark's format. Keys get 96 zero bits at the
 * front, and hops are numbered from 0. */
#ifndef TELEMARK_DTA_PROTOTYPE_P4
#define TELEMARK_DTA_PROTOTYPE_P4

#include "packet.p4"

control FromPrototype(inout headers_t hdr) {
    apply {
        if (hdr.short_key_write.isValid()) {
            hdr.key_write.setValid();
            hdr.key_write.redundancy = hdr.short_key_write.redundancy;
            hdr.key_write.words = hdr.data_1.isValid() ? 8w1 : (hdr.data_3.isValid() ? 8w3 : 7);
            hdr.key_write.reserved = 0;
            hdr.key_write.key = (bit<128>)hdr.short_key_write.key;
        } else if (hdr.short_key_increment.isValid()) {
            hdr.key_increment.setValid();
            hdr.key_increment.redundancy = hdr.short_key_increment.redundancy;
            hdr.key_increment.reserved = 0;
            hdr.key_increment.key = (bit<128>)hdr.short_key_increment.key;
            hdr.key_increment.addend = hdr.short_key_increment.addend;
        } else if (hdr.short_postcard.isValid()) {
            hdr.postcard.setValid();
            hdr.postcard.redundancy = 1;
            hdr.postcard.hop = hdr.short_postcard.hop - 1;
            hdr.postcard.hops = 0;
            hdr.postcard.reserved = 0;
            hdr.postcard.key = (bit<128>)hdr.short_postcard.key;
            hdr.postcard.value = hdr.short_postcard.value;
        }
    }
}

#endif
