/* The INT switch, for INT-MD, INT-MX and INT-XD. For each flow, the controller's entries define the
 * role of the switch: source, transit or sink.
 *
 *   ingress   forwarding --> watch: does it have INT, is its flow watched --> drop reports
 *   egress    this switch's metadata --> source or transit: headers, metadata
 *             --> reports: the packet is cloned --> sink: INT is removed
 *             clone: the report is written around it */
#include "report.p4"
#include "watch.p4"

struct metadata_t {
    hop_t hop;
    int_watch_t watch;
    int_report_t report;
    @field_list(CLONE_FIELDS)
    bit<8> drop_reason;
    readout_values_t readout;
}

#include "pipeline.p4"

control IntIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntArrival() arrival;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;

    apply {
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
            readout_arrival.apply(hdr.readout, meta.readout);
        } else {
            arrival.apply(hdr, meta, standard_metadata);
        }
    }
}

control IntEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IntDeparture(false) departure;
    ReadoutDeparture() readout_departure;

    apply {
        departure.apply(hdr, meta, standard_metadata);
        readout_departure.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    IntParser(), IntVerifyChecksum(), IntIngress(), IntEgress(), IntComputeChecksum(),
    IntDeparser()) main;
