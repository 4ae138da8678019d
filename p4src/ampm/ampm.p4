/* The AM-PM switch: forwards packets, and measures watched flows by alternate marking. For each
 * flow, the controller's entries select the methods, and the role of the switch on the path: first,
 * middle or last.
 *
 *   ingress   watch --> method: block and pulse of the packet, from the clock or from its bits
 *                   --> records of arrivals
 *   egress              records of departures --> set marks, or clear them at the last switch */
#ifdef AMPM_ROUTED
#include "../include/parser.p4"
#include "../include/routing.p4"
#include "multicast.p4"
#else
#include "../include/forwarding.p4"
#endif
#include "../include/readout.p4"
#include "methods.p4"

struct metadata_t {
    watch_t watch;
    sample_t sample;
    readout_values_t readout;
}

#include "../include/switch.p4"

control AmpmIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
#ifdef AMPM_ROUTED
    Routing() routing;
    Multicast() multicast;
#else
    Forwarding() forwarding;
#endif
    Watch() watch;
    Methods() methods;
    BlockRecord() block_arrivals;
    PulseRecord() pulse_arrivals;
    SampleRecord() sample_arrivals;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;

    // Packets and bytes per flow and colour; the index is 2 * flow + colour.
    counter(AMPM_CELLS, CounterType.packets_and_bytes) arrivals;

    apply {
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
        } else {
#ifdef AMPM_ROUTED
            bool is_multicast;
            multicast.apply(hdr.ipv4, standard_metadata, is_multicast);
            if (!is_multicast) {
                routing.apply(hdr.ethernet, hdr.ipv4, hdr.ports, standard_metadata);
            }
#else
            forwarding.apply(hdr, standard_metadata);
#endif
            watch.apply(hdr, meta.watch, standard_metadata);
            if (meta.watch.watched == 1) {
                methods.apply(hdr, meta.watch, meta.sample);
                arrivals.count(meta.watch.cell);
            }
        }
        block_arrivals.apply(meta.watch, meta.watch.now_us, meta.readout);
        pulse_arrivals.apply(meta.watch, meta.watch.now_us, meta.readout);
        sample_arrivals.apply(meta.watch, meta.sample, meta.watch.now_us, meta.readout);
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

control AmpmEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    BlockRecord() block_departures;
    PulseRecord() pulse_departures;
    SampleRecord() sample_departures;
    LeaveDomain() leave_domain;
    ReadoutDeparture() readout_departure;

    counter(AMPM_CELLS, CounterType.packets_and_bytes) departures;

    apply {
        bit<48> now_us = standard_metadata.egress_global_timestamp + meta.watch.offset_us;
        block_departures.apply(meta.watch, now_us, meta.readout);
        pulse_departures.apply(meta.watch, now_us, meta.readout);
        sample_departures.apply(meta.watch, meta.sample, now_us, meta.readout);
        if (meta.watch.watched == 1) {
            departures.count(meta.watch.cell);
            leave_domain.apply(hdr, meta.watch);
        }
        readout_departure.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    SwitchParser(), SwitchVerifyChecksum(), AmpmIngress(), AmpmEgress(), SwitchComputeChecksum(),
    SwitchDeparser()) main;
