/* A program for the fuzzer. It uses features that the other programs do not use: unions, varbits,
 * loops, wide arithmetic, meters, digests, and clones of both kinds. Packets can reach all of its
 * code in which errors are likely. */
#include <core.p4>
#include <v1model.p4>

header head_t {
    bit<8> kind;
    bit<8> flags;
    bit<16> number;
}

header short_t {
    bit<16> value;
}

header long_t {
    bit<4> length;
    bit<4> low;
    varbit<120> content;
}

header wide_t {
    bit<128> key;
    int<100> sum;
    bit<3> three;
    bit<1> one;
    bit<24> rest;
}

header_union item_t {
    short_t small;
    long_t large;
}

struct headers_t {
    head_t head;
    item_t[3] items;
    wide_t wide;
    head_t[5] stack;
}

struct metadata_t {
    @field_list(1, 2)
    bit<8> rounds;
    @field_list(2)
    bit<128> kept;
    bit<2> colour;
    bit<16> sum;
    bit<64> rolled;
}

struct noticed_t {
    bit<128> key;
    bit<16> number;
    int<100> sum;
}

error { TooMany }

parser MixtureParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    value_set<bit<8>>(4) others;
    bit<8> left;

    state start {
        left = 0;
        packet.extract(hdr.head);
        transition select(hdr.head.kind, hdr.head.flags) {
            (1, _): items;
            (2, _): wide;
            (3, 0x10 .. 0x7f): stack;
            (4, 1 &&& 1): skip;
            default: other;
        }
    }

    state other {
        transition select(hdr.head.kind) {
            others: wide;
            default: accept;
        }
    }

    state items {
        left = left + 1;
        verify(left < 4, error.TooMany);
        transition select(packet.lookahead<bit<8>>()) {
            0: small_item;
            0x10 &&& 0xf0: large_item;
            0x20 .. 0x7f: large_item;
            default: wide;
        }
    }

    state small_item {
        packet.extract(hdr.items.next.small);
        transition items;
    }

    state large_item {
        packet.extract(hdr.items.next.large, (bit<32>)(packet.lookahead<bit<4>>()) * 8);
        transition items;
    }

    state skip {
        packet.advance((bit<32>)hdr.head.number);
        transition stack;
    }

    state stack {
        packet.extract(hdr.stack.next);
        transition select(hdr.stack.last.kind) {
            3: stack;
            2: wide;
            default: accept;
        }
    }

    state wide {
        packet.extract(hdr.wide);
        transition accept;
    }
}

control MixtureVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum_with_payload(
            hdr.stack[0].isValid(), { hdr.head.kind, hdr.head.flags, hdr.head.number },
            hdr.stack[0].number, HashAlgorithm.crc16);
    }
}

control MixtureIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    meter(8, MeterType.bytes) speeds;
    direct_meter<bit<2>>(MeterType.packets) speed;
    direct_counter(CounterType.packets_and_bytes) hits;
    register<bit<128>>(7) keys;
    action_selector(HashAlgorithm.crc32, 32, 16) choice;

    action send(bit<9> port, bit<3> priority) {
        standard_metadata.egress_spec = port;
        standard_metadata.priority = priority;
    }
    action many(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }
    action metered(bit<9> port) {
        speed.read(meta.colour);
        standard_metadata.egress_spec = port;
    }
    action drop() {
        mark_to_drop(standard_metadata);
    }

    table balanced {
        key = {
            hdr.head.kind: exact;
            hdr.head.number: selector;
            hdr.head.flags: selector;
        }
        actions = { send; many; drop; }
        implementation = choice;
    }

    table by_range {
        key = {
            hdr.head.number: range;
            hdr.head.flags: optional;
            hdr.wide.key: ternary;
        }
        actions = { metered; drop; NoAction; }
        meters = speed;
        counters = hits;
        support_timeout = true;
    }

    table by_prefix {
        key = {
            hdr.wide.key: lpm;
            hdr.head.flags: exact;
        }
        actions = { send; many; }
        size = 16;
    }

    apply {
        if (balanced.apply().miss) {
            switch (by_range.apply().action_run) {
                metered: { meta.rounds = meta.rounds + 1; }
                drop: { return; }
                default: { standard_metadata.egress_spec = (bit<9>)hdr.head.flags; }
            }
        }
        if (hdr.wide.isValid()) {
            by_prefix.apply();
            bit<128> old;
            keys.read(old, (bit<32>)hdr.head.number);
            keys.write((bit<32>)hdr.head.number, old + hdr.wide.key * old);
            hdr.wide.sum = (hdr.wide.sum |+| (int<100>)old[99:0]) >> hdr.head.flags;
            hdr.wide.key = hdr.wide.key << hdr.head.kind | old;
            hdr.wide.three = hdr.wide.three |-| 5;
            meta.kept = hdr.wide.key;
            digest<noticed_t>(1, { hdr.wide.key, hdr.head.number, hdr.wide.sum });
        }
        speeds.execute_meter((bit<32>)hdr.head.flags, meta.colour);
        random(meta.rolled, (bit<64>)hdr.head.kind, (bit<64>)hdr.head.number);
        hash(meta.sum, HashAlgorithm.xor16, (bit<16>)hdr.head.kind,
             { hdr.head, hdr.wide.key, hdr.wide.sum }, hdr.head.number);
        bit<16> total = 0;
        for (bit<16> i in 0 .. 9) {
            if (i == hdr.head.number) {
                break;
            }
            total = total + i * meta.sum;
        }
        if (hdr.stack[2].isValid()) {
            hdr.stack.pop_front(2);
        }
        if (hdr.stack[1].isValid()) {
            hdr.stack.push_front(3);
            hdr.stack[0] = { 3, hdr.head.flags, total };
        }
        if (hdr.items[0].small.isValid()) {
            hdr.items[0].large.setValid();
            hdr.items[1] = hdr.items[0];
        }
        if (hdr.head.flags[0:0] == 1 && meta.rounds < 4) {
            meta.rounds = meta.rounds + 1;
            resubmit_preserving_field_list(2);
        }
        if (hdr.head.flags[1:1] == 1) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.head.number, 1);
        }
    }
}

control MixtureEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.head.flags[2:2] == 1 && standard_metadata.instance_type == 0) {
            clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.head.number, 2);
        }
        if (hdr.head.flags[3:3] == 1 && meta.rounds < 6) {
            meta.rounds = meta.rounds + 1;
            hdr.wide.setValid();
            recirculate_preserving_field_list(1);
        }
        if (hdr.head.flags[4:4] == 1) {
            truncate((bit<32>)hdr.head.number);
        }
        if (hdr.head.flags[5:5] == 1) {
            hdr.head.setInvalid();
            hdr.stack[4].setValid();
        }
        if (standard_metadata.deq_qdepth > 2) {
            mark_to_drop(standard_metadata);
        }
    }
}

control MixtureCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(
            hdr.wide.isValid(), { hdr.wide.key, hdr.wide.three, hdr.wide.one, 4w0 },
            hdr.head.number, HashAlgorithm.csum16);
    }
}

control MixtureDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.head);
        packet.emit(hdr.items);
        packet.emit(hdr.stack);
        packet.emit(hdr.wide);
    }
}

V1Switch(
    MixtureParser(), MixtureVerify(), MixtureIngress(), MixtureEgress(), MixtureCompute(),
    MixtureDeparser()) main;
