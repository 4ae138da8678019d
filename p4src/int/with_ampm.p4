/* INT and alternate marking in one switch. They have separate watch lists and separate DSCP bits.
 *
 * INT is added before marks are set, and removed before marks are cleared. The hash of hashed
 * marking includes fields that INT changes (length, UDP checksum). So a flow may use either INT or
 * hashed marking, but not both. */
#include "report.p4"
#include "watch.p4"
#include "../ampm/methods.p4"

struct metadata_t {
    hop_t hop;
    int_watch_t watch;
    int_report_t report;
    @field_list(CLONE_FIELDS)
    bit<8> drop_reason;
    watch_t ampm;
    sample_t sample;
    readout_values_t readout;
}

#include "pipeline.p4"

control BothIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntArrival() arrival;
    Watch() watch;
    Methods() methods;
    BlockRecord() block_arrivals;
    PulseRecord() pulse_arrivals;
    SampleRecord() sample_arrivals;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;

    counter(AMPM_CELLS, CounterType.packets_and_bytes) arrivals;

    apply {
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
            arrival.apply(hdr, meta, standard_metadata);
            watch.apply(hdr, meta.ampm, standard_metadata);
            if (meta.ampm.watched == 1) {
                methods.apply(hdr, meta.ampm, meta.sample);
                arrivals.count(meta.ampm.cell);
            }
        }
        block_arrivals.apply(meta.ampm, meta.ampm.now_us, meta.readout);
        pulse_arrivals.apply(meta.ampm, meta.ampm.now_us, meta.readout);
        sample_arrivals.apply(meta.ampm, meta.sample, meta.ampm.now_us, meta.readout);
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

control BothEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntDeparture(false) departure;
    BlockRecord() block_departures;
    PulseRecord() pulse_departures;
    SampleRecord() sample_departures;
    LeaveDomain() leave_domain;
    ReadoutDeparture() readout_departure;

    counter(AMPM_CELLS, CounterType.packets_and_bytes) departures;

    apply {
        bit<48> now_us = standard_metadata.egress_global_timestamp + meta.ampm.offset_us;
        departure.apply(hdr, meta, standard_metadata);
        if (standard_metadata.instance_type != DEFLECTED) {  // deflected packets do not depart
            block_departures.apply(meta.ampm, now_us, meta.readout);
            pulse_departures.apply(meta.ampm, now_us, meta.readout);
            sample_departures.apply(meta.ampm, meta.sample, now_us, meta.readout);
            if (meta.ampm.watched == 1) {
                departures.count(meta.ampm.cell);
                leave_domain.apply(hdr, meta.ampm);
            }
        }
        readout_departure.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    IntParser(), IntVerifyChecksum(), BothIngress(), BothEgress(), IntComputeChecksum(),
    IntDeparser()) main;
