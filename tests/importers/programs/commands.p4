/* A switch with objects of each kind for which simple_switch_CLI has commands. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header probe_t {
    bit<32> address;
    bit<16> number;
    bit<8> tag;
}

struct headers_t {
    ethernet_t ethernet;
    probe_t probe;
}

struct metadata_t {
    bit<2> colour;
}

parser CommandsParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        transition accept;
    }
}

control CommandsVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control CommandsIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(8) seen;
    counter(4, CounterType.packets_and_bytes) arrivals;
    meter(4, MeterType.packets) pace;
    direct_counter(CounterType.packets_and_bytes) by_address;
    direct_meter<bit<2>>(MeterType.bytes) by_prefix;
    action_selector(HashAlgorithm.crc16, 16, 4) paths;

    action drop() { mark_to_drop(standard_metadata); }
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    action copy(bit<16> group) { standard_metadata.mcast_grp = group; }
    action mirror(bit<9> port, bit<32> session) {
        standard_metadata.egress_spec = port;
        clone(CloneType.I2E, session);
    }
    action metered() { by_prefix.read(meta.colour); }

    table addresses {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; copy; mirror; drop; }
        counters = by_address;
        default_action = drop();
    }

    table prefixes {
        key = { hdr.probe.address: lpm; }
        actions = { metered; NoAction; }
        meters = by_prefix;
        default_action = NoAction();
    }

    table choices {
        key = {
            hdr.ethernet.ether_type: ternary;
            hdr.probe.number: range;
            hdr.probe.tag: optional;
        }
        actions = { forward; NoAction; }
        default_action = NoAction();
    }

    table spread {
        key = {
            hdr.probe.tag: exact;
            hdr.probe.number: selector;
        }
        actions = { forward; NoAction; }
        implementation = paths;
    }

    apply {
        arrivals.count((bit<32>) standard_metadata.ingress_port);
        pace.execute_meter((bit<32>) standard_metadata.ingress_port, meta.colour);
        addresses.apply();
        if (hdr.probe.isValid()) {
            seen.write((bit<32>) standard_metadata.ingress_port, (bit<32>) hdr.probe.number);
            prefixes.apply();
            choices.apply();
            spread.apply();
        }
    }
}

control CommandsEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action retag(bit<8> tag) { hdr.probe.tag = tag; }

    table tagging {
        actions = { retag; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.probe.isValid()) {
            tagging.apply();
        }
        // The copy has a field with the node of the multicast group that created it.
        if (standard_metadata.egress_rid != 0 && hdr.probe.isValid()) {
            hdr.probe.tag = (bit<8>) standard_metadata.egress_rid;
        }
    }
}

control CommandsCompute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control CommandsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.probe);
    }
}

V1Switch(
    CommandsParser(), CommandsVerify(), CommandsIngress(), CommandsEgress(), CommandsCompute(),
    CommandsDeparser()) main;
