/* The packet determines lengths, stack sizes, indexes, ports and shifts. With unexpected values,
 * operations with these easily go wrong. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header label_t {
    bit<15> value;
    bit<1> last;
    bit<16> kind;
}

header options_t {
    bit<8> words;
    bit<8> kind;
    varbit<320> bytes;
}

header order_t {  // values for the operations that the packet requests
    bit<9> port;
    bit<7> flags;
    bit<16> group;
    bit<32> index;
    bit<16> size;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    label_t[4] labels;
    options_t options;
    order_t order;
}

struct metadata_t {
    @field_list(1)
    bit<32> passes;
    bit<64> hash;
    bit<32> old;
}

error { OptionsTooLong }

parser HostileParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x8847: labels;
            0x9999: options;
            0x88b5: order;
            default: accept;
        }
    }

    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.last) {
            1: after_labels;
            default: labels;
        }
    }

    state after_labels {
        transition select(packet.lookahead<bit<8>>()) {
            0: order;
            1 &&& 1: options;
            default: accept;
        }
    }

    state options {
        bit<8> words = packet.lookahead<bit<8>>();
        verify(words < 200, error.OptionsTooLong);
        packet.extract(hdr.options, (bit<32>)words * 32);
        transition order;
    }

    state order {
        packet.extract(hdr.order);
        transition accept;
    }
}

control HostileVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(
            hdr.order.isValid(), { hdr.order.port, hdr.order.flags, hdr.order.group },
            hdr.order.checksum, HashAlgorithm.csum16);
    }
}

control HostileIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(64) cells;
    counter(16, CounterType.packets_and_bytes) counts;
    direct_counter(CounterType.packets) hits;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
        hits.count();
    }

    table by_port {
        key = { standard_metadata.ingress_port: exact; }
        actions = { forward; drop; }
        default_action = drop();
        counters = hits;
        const entries = {
            1: forward(2);
            2: forward(1);
            3: forward(3);
        }
    }

    table by_bits {
        key = {
            hdr.ethernet.dst_addr: ternary;
            hdr.order.index: ternary;
        }
        actions = { forward; NoAction; }
        default_action = NoAction();
        const entries = {
            (0x020000000000 &&& 0xff0000000000, 0x80000000 &&& 0x80000000): forward(1);
            (_, 0x40000000 &&& 0xc0000000): forward(3);
        }
    }

    apply {
        by_port.apply();
        if (hdr.labels[0].isValid()) {
            if (hdr.labels[0].value[0:0] == 1) {
                hdr.labels.push_front(2);
                hdr.labels[0].setValid();
                hdr.labels[0].kind = 7;
            } else {
                hdr.labels.pop_front(3);
            }
        }
        if (hdr.order.isValid()) {
            by_bits.apply();
            cells.read(meta.old, hdr.order.index);
            cells.write(hdr.order.index, meta.old + 1);
            counts.count(hdr.order.index);
            hash(meta.hash, HashAlgorithm.crc32, hdr.order.size, { hdr.order.index, meta.old },
                 hdr.order.group);
            hdr.order.index = (hdr.order.index << hdr.order.flags) + (bit<32>)meta.hash;
            if (hdr.order.flags[0:0] == 1) {
                standard_metadata.egress_spec = hdr.order.port;
            }
            if (hdr.order.flags[1:1] == 1) {
                standard_metadata.mcast_grp = hdr.order.group;
            }
            if (hdr.order.flags[2:2] == 1) {
                clone(CloneType.I2E, (bit<32>)hdr.order.group);
            }
            if (hdr.order.flags[3:3] == 1) {
                truncate((bit<32>)hdr.order.size);
            }
            if (hdr.order.flags[4:4] == 1 && meta.passes < 3) {
                meta.passes = meta.passes + 1;
                resubmit_preserving_field_list(1);
            }
            if (hdr.order.flags[5:5] == 1) {
                hdr.ethernet.setInvalid();
            }
        }
    }
}

control HostileEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.order.isValid() && hdr.order.flags[6:6] == 1 && meta.passes < 5) {
            meta.passes = meta.passes + 1;
            recirculate_preserving_field_list(1);
        }
        hdr.options.setInvalid();
    }
}

control HostileComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(
            hdr.order.isValid(), { hdr.order.port, hdr.order.flags, hdr.order.group },
            hdr.order.checksum, HashAlgorithm.csum16);
    }
}

control HostileDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.labels);
        packet.emit(hdr.options);
        packet.emit(hdr.order);
    }
}

V1Switch(
    HostileParser(), HostileVerifyChecksum(), HostileIngress(), HostileEgress(),
    HostileComputeChecksum(), HostileDeparser()) main;
