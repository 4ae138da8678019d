/* The IOAM switch. For each flow and port, the controller's entries define the role of the switch:
 * encapsulating, transit or decapsulating node.
 *
 *   ingress   watch: border of the domain, namespaces, flows --> forwarding or IPv6 routing
 *   egress    encapsulating node: options are inserted; transit node: node data are added
 *             --> reports: the packet is cloned --> decapsulating node: options are removed
 *             clone: becomes a report, with headers in front
 *
 * A clone may also become a copy that goes back to the encapsulating node (loopback flag). */
#include "../include/allocation.p4"
#include "../include/readout.p4"
#include "packet.p4"

struct headers_t {
    readout_request_t readout_request;
    readout_t readout;
    // Headers of a report. They precede the reported packet:
    ethernet_t report_ethernet;
    ipv4_t report_ipv4;
    ports_t report_udp;
    report_group_t report_group;
    ioam_report_headers_t ioam_report;
    // The packet:
    ethernet_t ethernet;
    ipv6_t ipv6;
    ioam_options_t ioam;
    ipv6_t inner_ipv6;
    ports_t ports;
    ioam_kept_t ioam_kept;
}

struct metadata_t {
    hop_t hop;
    ioam_t ioam;
    readout_values_t readout;
}

#include "pipeline.p4"

control IoamVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IoamIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IoamArrival() arrival;
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

control IoamEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    IoamDeparture() departure;
    ReadoutDeparture() readout_departure;

    apply {
        departure.apply(hdr, meta, standard_metadata);
        readout_departure.apply(hdr.readout, meta.readout);
    }
}

control IoamComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IoamDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.readout);
        packet.emit(hdr.report_ethernet);
        packet.emit(hdr.report_ipv4);
        packet.emit(hdr.report_udp);
        packet.emit(hdr.report_group);
        packet.emit(hdr.ioam_report);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ioam);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.ports);
    }
}

V1Switch(
    IoamParser(), IoamVerifyChecksum(), IoamIngress(), IoamEgress(), IoamComputeChecksum(),
    IoamDeparser()) main;
