/* Round-trip times from the spin bit and from the delay bit.
 *
 * Spin bit: the client inverts the bit once per round trip, and the server echoes it. So the time
 * between two edges in one direction is the RTT, plus the time in which the hosts had nothing to
 * send. The observer cannot detect reordering: each edge counts, also if an old packet causes it.
 *
 * Delay bit: one marked packet, the delay sample, bounces between the hosts. A host reflects the
 * delay sample within 1 ms or not at all. The client sends a new one if it has sent none for T_Max.
 * So the time between two delay samples is the RTT, if it is shorter than T_Max - K.
 *
 *   client --D--> observer ----> server      time from D in one direction to D in the other one:
 *   client <----- observer <-D-- server      half RTT, here between observer and server */
#ifndef TELEMARK_EXPLICIT_DELAY_P4
#define TELEMARK_EXPLICIT_DELAY_P4

#include "../include/readout.p4"
#include "watch.p4"

// Records; index: stream; values: number of samples, their sum, minimum and maximum in us.
const bit<16> READOUT_SPIN = 1;
const bit<16> READOUT_DELAY = 2;
const bit<16> READOUT_HALF = 3;

/* Statistics of delay samples per stream. */
control DelayStatistics(
    in bit<1> measured, in bit<32> index, in bit<48> sample_us, inout readout_values_t readout)(
    bit<16> record) {
    register<bit<64>>(EXPLICIT_STREAMS) samples;
    register<bit<64>>(EXPLICIT_STREAMS) sum_us;
    register<bit<64>>(EXPLICIT_STREAMS) min_us;
    register<bit<64>>(EXPLICIT_STREAMS) max_us;

    action add() {
        bit<64> number;
        bit<64> sum;
        bit<64> min;
        bit<64> max;
        samples.read(number, index);
        sum_us.read(sum, index);
        min_us.read(min, index);
        max_us.read(max, index);
        bit<64> sample = (bit<64>)sample_us;
        samples.write(index, number + 1);
        sum_us.write(index, sum + sample);
        min_us.write(index, number == 0 || sample < min ? sample : min);
        max_us.write(index, sample > max ? sample : max);
    }

    action read() {
        samples.read(readout.value_0, readout.index);
        sum_us.read(readout.value_1, readout.index);
        min_us.read(readout.value_2, readout.index);
        max_us.read(readout.value_3, readout.index);
    }

    apply {
        if (readout.record == record) {
            read();
        } else if (measured == 1) {
            add();
        }
    }
}

control SpinBit(inout stream_t stream, in bit<48> now_us, inout readout_values_t readout) {
    // State of a stream: bit 0 is the spin bit of the last packet, bit 1 shows that there was a
    // packet, and bit 2 that there was an edge.
    register<bit<8>>(EXPLICIT_STREAMS) states;
    register<bit<48>>(EXPLICIT_STREAMS) edge_us;
    DelayStatistics(READOUT_SPIN) statistics;
    bit<1> measured = 0;
    bit<48> sample_us = 0;

    action track() {
        bit<8> state;
        bit<48> last_us;
        states.read(state, stream.index);
        edge_us.read(last_us, stream.index);
        bool is_edge = state[1:1] == 1 && state[0:0] != stream.spin;
        stream.spin_edge = is_edge ? 1w1 : 1w0;
        measured = is_edge && state[2:2] == 1 ? 1w1 : 1w0;
        sample_us = now_us - last_us;
        states.write(
            stream.index, (is_edge ? 8w4 : state & 4) | 2 | (bit<8>)stream.spin);
        edge_us.write(stream.index, is_edge ? now_us : last_us);
    }

    apply {
        if (stream.watched == 1) {
            track();
        }
        statistics.apply(measured, stream.index, sample_us, readout);
    }
}

control DelayBit(inout stream_t stream, in bit<48> now_us, inout readout_values_t readout) {
    register<bit<48>>(EXPLICIT_STREAMS) sample_time;  // of the last sample, plus 1; 0: none yet
    DelayStatistics(READOUT_DELAY) statistics;
    DelayStatistics(READOUT_HALF) half_statistics;
    bit<1> measured = 0;
    bit<48> rtt_us = 0;
    bit<1> half_measured = 0;
    bit<48> half_us = 0;

    action observe_sample() {
        bit<48> last;
        bit<48> opposite;
        sample_time.read(last, stream.index);
        sample_time.read(opposite, stream.index ^ 1);
        rtt_us = now_us + 1 - last;
        half_us = now_us + 1 - opposite;
        measured = last != 0 && rtt_us < stream.limit_us ? 1w1 : 1w0;
        half_measured = opposite != 0 && half_us < stream.limit_us ? 1w1 : 1w0;
        sample_time.write(stream.index, now_us + 1);
    }

    apply {
        if (stream.watched == 1 && stream.scheme == SCHEME_SDT && stream.bit_1 == 1) {
            observe_sample();
        }
        statistics.apply(measured, stream.index, rtt_us, readout);
        half_statistics.apply(half_measured, stream.index, half_us, readout);
    }
}

#endif
