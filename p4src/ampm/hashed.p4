/* Mixed hashed marking: several delay samples per block (RFC 9342 section 7.2.2). Apart from the
 * colour, it needs no bit.
 *
 *   block 0, colour 0                block 1, colour 1
 *   . . H . . . . H . . H . .        . . . H . . H . .      H: hash of the packet AND mask = 0
 *
 * Every measuring point computes the same hash, of fields that do not change on the path. So all
 * points sample the same packets, and samples need no mark. The colour determines the block of a
 * packet, so samples of different blocks are not mixed. The hash also selects one of the eight
 * slots of the block. So a lost sample does not change the slots of other samples. A slot stores
 * only its first sample. Two samples are from the same packet if their blocks and their hashes are
 * equal. */
#ifndef TELEMARK_AMPM_HASHED_P4
#define TELEMARK_AMPM_HASHED_P4

#include "watch.p4"

#define AMPM_SAMPLES 8

struct sample_t {
    bit<1> chosen;
    bit<32> hash;   // hash of the packet
    bit<32> place;  // slot of the sample: 8 * cell + the three highest bits of the hash
}

control HashedChoice(in headers_t hdr, in watch_t watch, inout sample_t sample) {
    bit<32> unwanted = 0;  // bits of the hash under the mask; 0 means that the packet is a sample

    // One of 2^n packets is a sample. `mask` has n ones; they are among its lower 29 bits.
    action set_sampling(bit<32> mask) {
        unwanted = sample.hash & mask;
    }

    table sampling {
        actions = { set_sampling; }
        default_action = set_sampling(0x3F);
    }

    apply {
        bit<64> transport = 0;
        if (hdr.ports.isValid()) {
            transport = hdr.ports.src_port ++ hdr.ports.dst_port ++ hdr.ports.word;
        }
        if (hdr.ipv4.isValid()) {
            hash(
                sample.hash, HashAlgorithm.crc32, 32w0,
                {
                    hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
                    hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.flags,
                    hdr.ipv4.fragment_offset, transport
                },
                64w0x100000000);
        } else {
            hash(
                sample.hash, HashAlgorithm.crc32, 32w0,
                {
                    hdr.ipv6.src_addr, hdr.ipv6.dst_addr, hdr.options.next_header,
                    hdr.ipv6.payload_length, hdr.ipv6.flow_label, 4w0, transport
                },
                64w0x100000000);
        }
        sampling.apply();
        if (unwanted == 0) {
            sample.chosen = 1;
            sample.place = (watch.cell << 3) + (sample.hash >> 29);
        }
    }
}

const bit<16> READOUT_SAMPLE = 3;  // index: slot; values: block_us, samples, time_us, hash

/* Record of a slot at one measuring point: the number of packets with this slot, and the time and
 * the hash of the first of these packets. */
control SampleRecord(
    in watch_t watch, in sample_t sample, in bit<48> time_us, inout readout_values_t readout) {
    register<bit<48>>(AMPM_CELLS * AMPM_SAMPLES) block_us;
    register<bit<48>>(AMPM_CELLS * AMPM_SAMPLES) samples;
    register<bit<48>>(AMPM_CELLS * AMPM_SAMPLES) sample_us;
    register<bit<32>>(AMPM_CELLS * AMPM_SAMPLES) hashes;

    action record() {
        bit<48> block;
        bit<48> number;
        bit<48> time;
        bit<32> known;
        block_us.read(block, sample.place);
        samples.read(number, sample.place);
        sample_us.read(time, sample.place);
        hashes.read(known, sample.place);
        bool is_new = number == 0 || block != watch.block_us;
        block_us.write(sample.place, watch.block_us);
        samples.write(sample.place, is_new ? 48w1 : number + 1);
        sample_us.write(sample.place, is_new ? time_us : time);
        hashes.write(sample.place, is_new ? sample.hash : known);
    }

    action read() {
        bit<48> block;
        bit<48> number;
        bit<48> time;
        bit<32> known;
        block_us.read(block, readout.index);
        samples.read(number, readout.index);
        sample_us.read(time, readout.index);
        hashes.read(known, readout.index);
        readout.value_0 = (bit<64>)block;
        readout.value_1 = (bit<64>)number;
        readout.value_2 = (bit<64>)time;
        readout.value_3 = (bit<64>)known;
    }

    apply {
        if (readout.record == READOUT_SAMPLE) {
            read();
        } else if (sample.chosen == 1) {
            record();
        }
    }
}

#endif
