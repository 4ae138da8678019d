/* The program of docs/how-to/controllers.md. It forwards packets, counts the received packets of
 * each port, stores the time of the last packet of each port, and sends a digest to the controller
 * for packets from an unknown source address. */
#include "../../p4src/include/forwarding.p4"
#include "../../p4src/include/readout.p4"

#define PORTS 512

const bit<16> READOUT_LAST = 1;  // index: port; value 0: arrival time of its last packet

struct metadata_t {
    readout_values_t readout;
}

#include "../../p4src/include/switch.p4"

struct source_t {  // digest to the controller: an unknown source address and its port
    bit<48> mac_addr;
    bit<9> port;
}

control SourcesIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Forwarding() forwarding;
    ReadoutRequest() readout_request;
    ReadoutArrival() readout_arrival;

    counter(PORTS, CounterType.packets_and_bytes) received;
    register<bit<48>>(PORTS) last_us;

    action known() { }

    action tell() {
        digest<source_t>(1, { hdr.ethernet.src_addr, standard_metadata.ingress_port });
    }

    table sources {
        key = { hdr.ethernet.src_addr: exact; }
        actions = { known; tell; }
        default_action = tell();
        size = 1024;
    }

    action read_last() {
        bit<48> time_us;
        last_us.read(time_us, meta.readout.index);
        meta.readout.value_0 = (bit<64>)time_us;
    }

    apply {
        if (hdr.readout_request.isValid()) {
            readout_request.apply(
                hdr.readout_request, hdr.readout, meta.readout, standard_metadata);
            if (meta.readout.record == READOUT_LAST) {
                read_last();
            }
        } else {
            bit<32> port = (bit<32>)standard_metadata.ingress_port;
            forwarding.apply(hdr, standard_metadata);
            sources.apply();
            received.count(port);
            last_us.write(port, standard_metadata.ingress_global_timestamp);
        }
        readout_arrival.apply(hdr.readout, meta.readout);
    }
}

V1Switch(
    SwitchParser(), SwitchVerifyChecksum(), SourcesIngress(), NoEgress(), SwitchComputeChecksum(),
    SwitchDeparser()) main;
