/* Watch list; also the key and the translator of each flow. */
#ifndef TELEMARK_DTA_REPORTER_WATCH_P4
#define TELEMARK_DTA_REPORTER_WATCH_P4

#include "reporter_flows.p4"

/* Returns how many routers a packet has passed, from its TTL. The initial TTL is assumed to be 64,
 * 128 or 255. The result is ambiguous for paths of more than 64 hops. */
bit<8> hops_passed(in bit<8> ttl) {
    bit<8> first = 255;
    if (ttl <= 64) {
        first = 64;
    } else if (ttl <= 128) {
        first = 128;
    }
    return first - ttl;
}

/* Sets the key of the flow. `protocol` and the ports are those of the flow; they are 0 if the
 * packet has none. */
control WatchFlow(
    in ipv4_t ipv4, in bit<8> protocol, in bit<16> src_port, in bit<16> dst_port,
    inout dta_flow_t flow, in standard_metadata_t standard_metadata) {
    bit<24> key_node = 0;

    action watch(bit<8> wanted) {
        flow.wanted = wanted;
    }

    table watch_list {
        key = {
            ipv4.src_addr: ternary @name("hdr.ipv4.src_addr");
            ipv4.dst_addr: ternary @name("hdr.ipv4.dst_addr");
            protocol: ternary @name("hdr.ipv4.protocol");
            src_port: ternary @name("hdr.ports.src_port");
            dst_port: ternary @name("hdr.ports.dst_port");
        }
        actions = { watch; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    /* Each flow uses one of the translators 1 to `count`. The key ends with `node`. So switches
     * with different values of `node` do not overwrite each other's data. */
    action set_flow_key(bit<24> node, bit<8> count) {
        key_node = node;
        hash(
            flow.translator, HashAlgorithm.crc32, 8w1,
            {
                ipv4.src_addr, ipv4.dst_addr, src_port, dst_port, protocol
            },
            count);
    }

    table flow_keys {
        actions = { set_flow_key; }
        default_action = set_flow_key(0, 1);
    }

    apply {
        bool is_report = protocol == PROTOCOL_UDP
            && (dst_port == DTA_PORT || dst_port == PROTOTYPE_PORT || dst_port == NACK_PORT);
        if (ipv4.isValid() && !is_report) {
            watch_list.apply();
        }
        if (flow.wanted != 0) {
            flow_keys.apply();
            flow.key = ipv4.src_addr ++ ipv4.dst_addr ++ src_port ++ dst_port ++ protocol
                ++ key_node;
            flow.hop = hops_passed(ipv4.ttl);
            flow.packet_bytes = standard_metadata.packet_length;
        }
    }
}

/* Position of a TCP segment in its flow. */
@noWarn("unused")
control LocateSegment(in ipv4_t ipv4, in ports_t ports, in tcp_t tcp, inout dta_flow_t flow) {
    apply {
        if (tcp.isValid()) {
            flow.tcp_sequence = ports.word;
            flow.tcp_bytes = (bit<32>)ipv4.total_length
                - (((bit<32>)ipv4.ihl + (bit<32>)tcp.data_offset) << 2)
                + (bit<32>)tcp.flags[1:1] + (bit<32>)tcp.flags[0:0];
        }
    }
}

#endif
