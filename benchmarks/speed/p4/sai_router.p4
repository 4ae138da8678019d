/* A router with the structure of SAI's P4 programs. Controllers use strings as ids. One ACL selects
 * the VRF, and another ACL drops packets. A route leads to a group, a next hop, a router interface,
 * and finally to a port. Tables, fields and actions that benchmarks/speed/sai.py uses have the same
 * names as in SAI. With PLATFORM_BMV2, ids are plain numbers, for switches without
 * @p4runtime_translation. */
#include <core.p4>
#include <v1model.p4>

#ifdef PLATFORM_BMV2
#define ID_TYPE(NAME, BITS) type bit<BITS> NAME;
#else
#define ID_TYPE(NAME, BITS) @p4runtime_translation("", string) type bit<BITS> NAME;
#endif

ID_TYPE(port_id_t, 9)
ID_TYPE(vrf_id_t, 10)
ID_TYPE(nexthop_id_t, 10)
ID_TYPE(wcmp_group_id_t, 12)
ID_TYPE(router_interface_id_t, 10)

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
}

struct metadata_t {
    bool admit_to_l3;
    vrf_id_t vrf_id;
    bool has_group;
    wcmp_group_id_t group_id;
    bool has_nexthop;
    nexthop_id_t nexthop_id;
    router_interface_id_t interface_id;
    bit<128> neighbor_id;
    bit<48> src_mac;
    bit<48> dst_mac;
    bool is_routed;
    bit<16> hash;
}

#define IPV4_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, \
    hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, \
    hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr }

parser SaiParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            17: udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

control SaiVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Admission(in headers_t hdr, inout metadata_t meta,
                  in standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) acl_pre_ingress_counter;

    action set_vrf(vrf_id_t vrf_id) {
        meta.vrf_id = vrf_id;
        acl_pre_ingress_counter.count();
    }
    action admit_to_l3() { meta.admit_to_l3 = true; }
    action no_action() { }

    table acl_pre_ingress_table {
        key = {
            hdr.ipv4.isValid(): optional @name("is_ipv4");
            hdr.ethernet.src_addr: ternary @name("src_mac");
            hdr.ipv4.dst_addr: ternary @name("dst_ip");
            hdr.ipv4.dscp: ternary @name("dscp");
            (port_id_t)standard_metadata.ingress_port: optional @name("in_port");
        }
        actions = { set_vrf; @defaultonly NoAction; }
        const default_action = NoAction;
        counters = acl_pre_ingress_counter;
        size = 254;
    }
    table l3_admit_table {
        key = {
            hdr.ethernet.dst_addr: ternary @name("dst_mac");
            (port_id_t)standard_metadata.ingress_port: optional @name("in_port");
        }
        actions = { admit_to_l3; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 64;
    }
    table vrf_table {
        key = { meta.vrf_id: exact @name("vrf_id"); }
        actions = { no_action; }
        const default_action = no_action;
        size = 64;
    }
    apply {
        acl_pre_ingress_table.apply();
        l3_admit_table.apply();
        vrf_table.apply();
    }
}

control Routing(in headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action_selector(HashAlgorithm.identity, 31296, 16) wcmp_group_selector;

    action drop() { mark_to_drop(standard_metadata); }
    action set_nexthop_id(nexthop_id_t nexthop_id) {
        meta.has_nexthop = true;
        meta.nexthop_id = nexthop_id;
    }
    action set_wcmp_group_id(wcmp_group_id_t wcmp_group_id) {
        meta.has_group = true;
        meta.group_id = wcmp_group_id;
    }
    action set_ip_nexthop(router_interface_id_t router_interface_id, bit<128> neighbor_id) {
        meta.interface_id = router_interface_id;
        meta.neighbor_id = neighbor_id;
        meta.is_routed = true;
    }
    action unicast_set_port_and_src_mac(port_id_t port, bit<48> src_mac) {
        standard_metadata.egress_spec = (bit<9>)port;
        meta.src_mac = src_mac;
    }
    action set_dst_mac(bit<48> dst_mac) { meta.dst_mac = dst_mac; }

    table ipv4_table {
        key = {
            meta.vrf_id: exact @name("vrf_id");
            hdr.ipv4.dst_addr: lpm @name("ipv4_dst");
        }
        actions = { drop; set_nexthop_id; set_wcmp_group_id; }
        const default_action = drop;
        size = 131072;
    }
    @oneshot table wcmp_group_table {
        key = {
            meta.group_id: exact @name("wcmp_group_id");
            meta.hash: selector;
        }
        actions = { set_nexthop_id; @defaultonly NoAction; }
        const default_action = NoAction;
        implementation = wcmp_group_selector;
        size = 3968;
    }
    table nexthop_table {
        key = { meta.nexthop_id: exact @name("nexthop_id"); }
        actions = { set_ip_nexthop; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 1024;
    }
    table router_interface_table {
        key = { meta.interface_id: exact @name("router_interface_id"); }
        actions = { unicast_set_port_and_src_mac; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 256;
    }
    table neighbor_table {
        key = {
            meta.interface_id: exact @name("router_interface_id");
            meta.neighbor_id: exact @name("neighbor_id");
        }
        actions = { set_dst_mac; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 1024;
    }
    apply {
        ipv4_table.apply();
        if (meta.has_group) {
            hash(meta.hash, HashAlgorithm.crc16, 16w0,
                 { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.udp.src_port, hdr.udp.dst_port },
                 32w65536);
            wcmp_group_table.apply();
        }
        if (meta.has_nexthop) {
            nexthop_table.apply();
            if (meta.is_routed) {
                router_interface_table.apply();
                neighbor_table.apply();
            }
        }
    }
}

control SaiIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) acl_ingress_counter;

    action acl_drop() {
        mark_to_drop(standard_metadata);
        acl_ingress_counter.count();
    }
    action acl_forward() { acl_ingress_counter.count(); }

    table acl_ingress_table {
        key = {
            hdr.ipv4.isValid(): optional @name("is_ipv4");
            hdr.ethernet.ether_type: ternary @name("ether_type");
            hdr.ethernet.dst_addr: ternary @name("dst_mac");
            hdr.ipv4.src_addr: ternary @name("src_ip");
            hdr.ipv4.dst_addr: ternary @name("dst_ip");
            hdr.ipv4.ttl: ternary @name("ttl");
            hdr.ipv4.protocol: ternary @name("ip_protocol");
            hdr.udp.src_port: ternary @name("l4_src_port");
            hdr.udp.dst_port: ternary @name("l4_dst_port");
        }
        actions = { acl_forward; acl_drop; @defaultonly NoAction; }
        const default_action = NoAction;
        counters = acl_ingress_counter;
        size = 255;
    }

    Admission() admission;
    Routing() routing;

    apply {
        admission.apply(hdr, meta, standard_metadata);
        mark_to_drop(standard_metadata);
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && meta.admit_to_l3 &&
            standard_metadata.checksum_error == 0) {
            routing.apply(hdr, meta, standard_metadata);
        }
        acl_ingress_table.apply();
    }
}

control SaiEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply {
        if (meta.is_routed) {
            hdr.ethernet.src_addr = meta.src_mac;
            hdr.ethernet.dst_addr = meta.dst_mac;
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        }
    }
}

control SaiCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SaiDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

V1Switch(SaiParser(), SaiVerify(), SaiIngress(), SaiEgress(), SaiCompute(), SaiDeparser()) main;
