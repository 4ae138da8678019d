/* Probes that measure the utilisation of links. Each probe lists the ports of its path. Each switch
 * inserts two values for its port: the number of bytes that the port has sent since the previous
 * probe, and the time of the previous probe in egress. The format is that of the exercise
 * `link_monitor` of p4lang/tutorials: EtherType 0x0812, the number of hops, the data of each hop
 * (last hop first), and the ports. */
#include "switch.p4"

const bit<16> ETHERTYPE_PROBE = 0x0812;
const bit<32> MAX_HOPS = 10;
const bit<32> MAX_PORTS = 512;

header probe_t {
    bit<8> hop_cnt;  // number of hops that follow
}

header probe_data_t {
    bit<1> bos;  // 1 for the first hop; the data of this hop are last
    bit<7> swid;
    bit<8> port;
    bit<32> byte_cnt;  // bytes, including this probe with the length that was received
    bit<48> last_time;  // departure time of the last probe (us)
    bit<48> cur_time;  // departure time of this probe (us)
}

header probe_fwd_t {
    bit<8> egress_spec;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    probe_t probe;
    probe_data_t[MAX_HOPS] probe_data;
    probe_fwd_t[MAX_HOPS] probe_fwd;
}

struct monitor_t {
    bit<8> remaining;  // number of ports of the path, up to this hop
    bit<8> egress_spec;
}

parser MonitorParser(
    packet_in packet, out headers_t hdr, inout monitor_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_PROBE: parse_probe;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }

    state parse_probe {
        packet.extract(hdr.probe);
        meta.remaining = hdr.probe.hop_cnt + 1;
        transition select(hdr.probe.hop_cnt) {
            0: parse_probe_fwd;
            default: parse_probe_data;
        }
    }

    state parse_probe_data {
        packet.extract(hdr.probe_data.next);
        transition select(hdr.probe_data.last.bos) {
            1: parse_probe_fwd;
            default: parse_probe_data;
        }
    }

    state parse_probe_fwd {
        packet.extract(hdr.probe_fwd.next);
        meta.remaining = meta.remaining - 1;
        meta.egress_spec = hdr.probe_fwd.last.egress_spec;
        transition select(meta.remaining) {
            0: accept;
            default: parse_probe_fwd;
        }
    }
}

control MonitorVerifyChecksum(inout headers_t hdr, inout monitor_t meta) {
    apply { }
}

control MonitorIngress(
    inout headers_t hdr, inout monitor_t meta, inout standard_metadata_t standard_metadata) {
    LpmForwarding() forwarding;

    apply {
        if (hdr.ipv4.isValid()) {
            forwarding.apply(hdr.ethernet, hdr.ipv4, standard_metadata);
        } else if (
            hdr.probe.isValid() && hdr.probe.hop_cnt < (bit<8>)MAX_HOPS
            // the port of this hop is present
            && standard_metadata.parser_error == error.NoError) {
            standard_metadata.egress_spec = (bit<9>)meta.egress_spec;
            hdr.probe.hop_cnt = hdr.probe.hop_cnt + 1;
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control MonitorEgress(
    inout headers_t hdr, inout monitor_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(MAX_PORTS) sent_bytes;  // bytes that each port has sent since the last probe
    register<bit<48>>(MAX_PORTS) probed_us;

    action set_swid(bit<7> swid) {
        hdr.probe_data[0].swid = swid;
    }

    table swid {
        actions = { set_swid; NoAction; }
        default_action = NoAction();
    }

    apply {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        bit<32> bytes;
        sent_bytes.read(bytes, port);
        bytes = bytes + standard_metadata.packet_length;
        if (hdr.probe.isValid()) {
            sent_bytes.write(port, 0);
            hdr.probe_data.push_front(1);
            hdr.probe_data[0].setValid();
            hdr.probe_data[0].bos = (bit<1>)(hdr.probe.hop_cnt == 1);
            hdr.probe_data[0].swid = 0;
            swid.apply();
            hdr.probe_data[0].port = (bit<8>)standard_metadata.egress_port;
            hdr.probe_data[0].byte_cnt = bytes;
            probed_us.read(hdr.probe_data[0].last_time, port);
            hdr.probe_data[0].cur_time = standard_metadata.egress_global_timestamp;
            probed_us.write(port, standard_metadata.egress_global_timestamp);
        } else {
            sent_bytes.write(port, bytes);
        }
    }
}

control MonitorComputeChecksum(inout headers_t hdr, inout monitor_t meta) {
    apply { }  // see changed_checksum
}

control MonitorDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.probe);
        packet.emit(hdr.probe_data);
        packet.emit(hdr.probe_fwd);
    }
}

V1Switch(
    MonitorParser(), MonitorVerifyChecksum(), MonitorIngress(), MonitorEgress(),
    MonitorComputeChecksum(), MonitorDeparser()) main;
