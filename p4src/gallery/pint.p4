/* PINT (Ben Basat et al., SIGCOMM 2020): telemetry with a fixed number of bits per packet.
 *
 * The first switch adds a PINT header with a digest of 16 bits. All switches have the same hash
 * functions of the packet and the hop. So each switch knows, without communication, whether it
 * changes the digest of a packet, and the receiver knows it as well.
 *
 * Path: in the baseline layer, hop i overwrites the digest with probability 1 / i, so that each hop
 * is the last writer with the same probability. In the XOR layer, each hop XORs its hash into the
 * digest with the same probability. This hash depends on the switch's number and on the packet.
 *
 * Latency: the last writer of another baseline layer writes the logarithm of its latency. */
#include "../include/headers.p4"

#ifndef BITS
#define BITS 8  // size of a digest of the path
#endif
#ifndef INSTANCES
#define INSTANCES 1  // digests of the path: 1 or 2
#endif
#ifndef LATENCY
#define LATENCY 1  // 1: the upper eight bits of the digest are the code of a latency
#endif

const bit<16> ETHERTYPE_PINT = 0x88B5;  // for local experiments: IEEE 802
const bit<8> INITIAL_TTL = 64;
// Numbers of a packet's random values (see Random): below LAYER, one for each hop; LAYER, for the
// choice of the layer; SWITCH + n, for the hash of switch n.
const bit<32> LAYER = 0x100;
const bit<32> SWITCH = 0x200;
@noWarn("unused") const bit<32> LATENCIES = 7;  // number of the instance for latencies

header pint_t {
    bit<16> ether_type;  // ethertype of the next header
    bit<16> digest;
}

struct headers_t {
    ethernet_t ethernet;
    pint_t pint;
    ipv4_t ipv4;
    ports_t ports;
}

struct metadata_t {
    bit<32> number;    // number of this switch
    bit<64> baseline;  // probability of the baseline layer, in units of 2^-32
    bit<64> xor;       // probability that a switch changes a digest in the XOR layer
    bit<64> a;         // parameters of the hash functions
    bit<64> b;
    bit<32> packet;    // identifies the packet
    bit<32> hop;       // number of this hop, from 1 on
}

parser PintParser(
    packet_in packet, out headers_t hdr, inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_PINT: parse_pint;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_pint {
        packet.extract(hdr.pint);
        transition select(hdr.pint.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) {
            (5, PROTOCOL_UDP): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control PintIngress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table forwarding {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
    }

    apply {
        forwarding.apply();
        if (hdr.ports.isValid()) {
            bit<16> before = hdr.ipv4.ttl ++ hdr.ipv4.protocol;
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            hdr.ipv4.checksum = changed_checksum(
                hdr.ipv4.checksum, before, hdr.ipv4.ttl ++ hdr.ipv4.protocol);
            if (!hdr.pint.isValid()) {
                hdr.pint.setValid();
                hdr.pint.ether_type = hdr.ethernet.ether_type;
                hdr.pint.digest = 0;
                hdr.ethernet.ether_type = ETHERTYPE_PINT;
            }
        }
    }
}

/* Random value that depends on the packet and on `number`. It is the same at all switches. */
control Random(in metadata_t meta, in bit<32> instance, in bit<32> number, out bit<32> value) {
    apply {
        bit<64> mixed = (meta.packet ++ ((instance << 16) + number)) * meta.a;
        mixed = (mixed ^ (mixed >> 32)) * meta.b;
        mixed = (mixed ^ (mixed >> 32)) * meta.a;
        value = mixed[63:32];
    }
}

/* One digest of the path. */
control Path(in metadata_t meta, in bit<32> instance, inout bit<32> bits) {
    Random() layer;
    Random() sample;
    Random() hashed;

    apply {
        bit<32> layer_value;
        bit<32> sample_value;
        bit<32> hash_value;
        layer.apply(meta, instance, LAYER, layer_value);
        sample.apply(meta, instance, meta.hop, sample_value);
        hashed.apply(meta, instance, SWITCH + meta.number, hash_value);
        bit<32> own = hash_value >> (32 - BITS);
        if ((bit<64>)layer_value < meta.baseline) {
            if ((bit<64>)sample_value * (bit<64>)meta.hop < 64w1 << 32) {
                bits = own;
            }
        } else if ((bit<64>)sample_value < meta.xor) {
            bits = bits ^ own;
        }
    }
}

control PintEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Path() path_1;
#if INSTANCES == 2
    Path() path_2;
#endif
#if LATENCY
    Random() latency_sample;
    bit<32> code = 0;

    action set_code(bit<32> new_code) {
        code = new_code;
    }

    table codes {
        key = {
            (standard_metadata.egress_global_timestamp
             - standard_metadata.ingress_global_timestamp)[31:0]: range @name("latency_us");
        }
        actions = { set_code; }
        default_action = set_code(0);
        size = 256;
    }
#endif

    action configure(
        bit<32> number, bit<64> baseline, bit<64> xor_layer, bit<64> a, bit<64> b) {
        meta.number = number;
        meta.baseline = baseline;
        meta.xor = xor_layer;
        meta.a = a;
        meta.b = b;
    }

    table node {
        actions = { configure; }
        default_action = configure(0, 0, 0, 0, 0);
    }

    apply {
        if (hdr.pint.isValid() && hdr.ports.isValid()) {
            node.apply();
            meta.packet = hdr.ports.src_port ++ hdr.ipv4.identification;
            meta.hop = (bit<32>)(INITIAL_TTL - hdr.ipv4.ttl);
            bit<32> lower = (bit<32>)hdr.pint.digest & ((32w1 << BITS) - 1);
            bit<32> upper = (bit<32>)hdr.pint.digest >> BITS;
            path_1.apply(meta, 1, lower);
#if INSTANCES == 2
            path_2.apply(meta, 2, upper);
#endif
#if LATENCY
            bit<32> sample_value;
            latency_sample.apply(meta, LATENCIES, meta.hop, sample_value);
            if ((bit<64>)sample_value * (bit<64>)meta.hop < 64w1 << 32) {
                codes.apply();
                upper = code;
            }
#endif
            hdr.pint.digest = ((upper << BITS) | lower)[15:0];
        }
    }
}

control PintVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control PintComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control PintDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.pint);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(
    PintParser(), PintVerifyChecksum(), PintIngress(), PintEgress(), PintComputeChecksum(),
    PintDeparser()) main;
