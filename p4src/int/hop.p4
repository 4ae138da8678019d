/* Converts the metadata of a switch about a packet (include/hop.p4) to INT metadata. */
#ifndef TELEMARK_INT_HOP_P4
#define TELEMARK_INT_HOP_P4

#include "../include/hop.p4"
#include "headers.p4"

const bit<32> UNKNOWN = 0xFFFFFFFF;

/* Utilisation of a port: the bytes in the last complete time window, relative to the rate of the
 * port. */
control Utilisation(
    in bit<64> parts_a_byte, inout hop_t hop, in standard_metadata_t standard_metadata) {
    // Windows last 2^16 us. They are numbered from 0 on the clock of the switch.
    register<bit<32>>(512) windows;
    register<bit<32>>(512) bytes;
    register<bit<32>>(512) bytes_before;
    bit<32> last = 0;

    action count_packet() {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        bit<32> now = standard_metadata.egress_global_timestamp[47:16];
        bit<32> window;
        bit<32> count;
        windows.read(window, port);
        bytes.read(count, port);
        bytes_before.read(last, port);
        if (window != now) {
            last = window + 1 == now ? count : 0;
            count = 0;
        }
        windows.write(port, now);
        bytes.write(port, count + standard_metadata.packet_length);
        bytes_before.write(port, last);
    }

    apply {
        hop.utilisation = UNKNOWN;
        if (parts_a_byte != 0) {
            count_packet();
            hop.utilisation = (((bit<64>)last * parts_a_byte) >> 32)[31:0];
        }
    }
}

/* Returns the sum of the two 16-bit halves of a word, for the Internet checksum. */
bit<32> halves(in bit<32> word) {
    return (word >> 16) + (word & 0xFFFF);
}

/* Sets the requested metadata of instruction bits 0 to 7. Adds to `sum` what these metadata
 * contribute to the checksum. */
control FillMetadata(
    inout int_metadata_t metadata, in hop_t hop, in bit<16> wanted, inout bit<32> sum) {
    apply {
        if ((wanted & 0x8000) != 0) {
            metadata.node_id.setValid();
            metadata.node_id.value = hop.node_id;
            sum = sum + halves(hop.node_id);
        }
        if ((wanted & 0x4000) != 0) {
            metadata.level_1.setValid();
            metadata.level_1.value = 7w0 ++ hop.ingress_port ++ 7w0 ++ hop.egress_port;
            sum = sum + halves(metadata.level_1.value);
        }
        if ((wanted & 0x2000) != 0) {
            metadata.latency.setValid();
            metadata.latency.value = hop.latency_us;
            sum = sum + halves(hop.latency_us);
        }
        if ((wanted & 0x1000) != 0) {
            metadata.occupancy.setValid();
            metadata.occupancy.value = hop.queue ++ hop.waiting_packets;
            sum = sum + halves(metadata.occupancy.value);
        }
        if ((wanted & 0x0800) != 0) {
            metadata.ingress_time.setValid();
            metadata.ingress_time.value = (bit<64>)hop.ingress_us;
            sum = sum + (bit<32>)hop.ingress_us[47:32] + halves(hop.ingress_us[31:0]);
        }
        if ((wanted & 0x0400) != 0) {
            metadata.egress_time.setValid();
            metadata.egress_time.value = (bit<64>)hop.egress_us;
            sum = sum + (bit<32>)hop.egress_us[47:32] + halves(hop.egress_us[31:0]);
        }
        if ((wanted & 0x0200) != 0) {
            metadata.level_2.setValid();
            metadata.level_2.value = 23w0 ++ hop.ingress_port ++ 23w0 ++ hop.egress_port;
            sum = sum + (bit<32>)hop.ingress_port + (bit<32>)hop.egress_port;
        }
        if ((wanted & UTILISATION) != 0) {
            metadata.utilisation.setValid();
            metadata.utilisation.value = hop.utilisation;
            sum = sum + halves(hop.utilisation);
        }
    }
}

#endif
