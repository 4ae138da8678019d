/* Access to registers by packets. P4Runtime servers that use the library PI can read counters, but
 * no registers.
 *
 *     controller --packet-out: record, index--> ingress, egress --packet-in: their registers-->
 *     controller --packet-out: record | WRITE, index, values--> ingress --packet-in: the values-->
 *
 * A packet-out selects a record (a group of registers), and an index in these registers. The
 * control to which the record belongs copies its registers to `readout_values_t`, first in ingress
 * and then in egress. One action reads all registers, so the values of a copy are from the same
 * moment. The bytes that follow the header are returned unchanged; a controller stores a request
 * number there.
 *
 * The packet-in also contains the time of the switch's clock. From this time, a controller computes
 * the clock offset.
 *
 * Some programs have records that can be written. In these programs, if the record number has the
 * bit WRITE, the parser extracts `readout_write_t` after the request, and ingress applies
 * ReadoutWrite. One action writes all registers of a record. So no packet sees only a part of the
 * update. */
#ifndef TELEMARK_READOUT_P4
#define TELEMARK_READOUT_P4

#include <core.p4>
#include <v1model.p4>

@controller_header("packet_out")
header readout_request_t {
    bit<16> record;
    bit<32> index;
}

@controller_header("packet_in")
header readout_t {
    bit<16> record;
    bit<32> index;
    bit<48> switch_us;  // time of this switch's clock when the request arrived
    bit<64> arrival_0;  // values of ingress registers; the record number determines which
    bit<64> arrival_1;
    bit<64> arrival_2;
    bit<64> arrival_3;
    bit<64> departure_0;  // values of egress registers
    bit<64> departure_1;
    bit<64> departure_2;
    bit<64> departure_3;
}

// Records have numbers from 1 on; 0 means that there is no record. A request for record 0 reads
// only the clock.

// Flag in a record number: the registers are written.
@noWarn("unused") const bit<16> WRITE = 0x8000;

header readout_write_t {
    bit<64> value_0;
    bit<64> value_1;
    bit<64> value_2;
    bit<64> value_3;
}

struct readout_values_t {
    bit<16> record;
    bit<32> index;
    bit<64> value_0;
    bit<64> value_1;
    bit<64> value_2;
    bit<64> value_3;
}

control ReadoutRequest(
    inout readout_request_t request, inout readout_t answer, inout readout_values_t values,
    inout standard_metadata_t standard_metadata) {
    apply {
        values.record = request.record;
        values.index = request.index;
        answer.setValid();
        answer.record = request.record;
        answer.index = request.index;
        answer.switch_us = standard_metadata.ingress_global_timestamp;
        request.setInvalid();
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }
}

/* Removes the values to be written from a request. The reply contains the new values. */
@noWarn("unused")
control ReadoutWrite(inout readout_write_t write, inout readout_values_t values) {
    apply {
        if (write.isValid()) {
            values.value_0 = write.value_0;
            values.value_1 = write.value_1;
            values.value_2 = write.value_2;
            values.value_3 = write.value_3;
            write.setInvalid();
        }
    }
}

/* Copies the values of ingress registers to the reply. Runs at the end of ingress. */
control ReadoutArrival(inout readout_t answer, in readout_values_t values) {
    apply {
        if (answer.isValid()) {
            answer.arrival_0 = values.value_0;
            answer.arrival_1 = values.value_1;
            answer.arrival_2 = values.value_2;
            answer.arrival_3 = values.value_3;
        }
    }
}

/* Copies the values of egress registers to the reply. Runs at the end of egress. */
@noWarn("unused")
control ReadoutDeparture(inout readout_t answer, in readout_values_t values) {
    apply {
        if (answer.isValid()) {
            answer.departure_0 = values.value_0;
            answer.departure_1 = values.value_1;
            answer.departure_2 = values.value_2;
            answer.departure_3 = values.value_3;
        }
    }
}

#endif
