/* Makes the packet of a clone: a request, what leads to the collector, and the iCRC. */
#ifndef TELEMARK_ROCE_WRITE_P4
#define TELEMARK_ROCE_WRITE_P4

#include "icrc.p4"
#include "request.p4"

/* The clone becomes a packet to the session's collector. */
control WriteRecord(
    inout headers_t hdr, inout roce_t roce, in hop_t hop,
    inout standard_metadata_t standard_metadata) {
    FillRecord() fill_record;
    WriteBody() write_body;
    Icrc() compute_icrc;
    queue_pair_t queue_pair = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    bit<16> bytes = 0;  // from BTH to iCRC
    bit<1> wants_probe = 0;

    action put_ethernet(bit<48> src_mac, bit<48> dst_mac, bit<16> ether_type) {
        hdr.ethernet.setValid();
        hdr.ethernet.src_addr = src_mac;
        hdr.ethernet.dst_addr = dst_mac;
        hdr.ethernet.ether_type = ether_type;
    }

    action over_v1(bit<48> src_mac, bit<48> dst_mac, bit<128> src_gid, bit<128> dst_gid) {
        put_ethernet(src_mac, dst_mac, ETHERTYPE_ROCE);
        hdr.grh.setValid();
        hdr.grh.version = 6;
        hdr.grh.traffic_class = 0;
        hdr.grh.flow_label = 0;
        hdr.grh.payload_length = bytes;
        hdr.grh.next_header = NEXT_HEADER_BTH;
        hdr.grh.hop_limit = 64;
        hdr.grh.src_gid = src_gid;
        hdr.grh.dst_gid = dst_gid;
    }

    action over_v2(
        bit<48> src_mac, bit<48> dst_mac, bit<32> src_addr, bit<32> dst_addr, bit<16> src_port) {
        put_ethernet(src_mac, dst_mac, ETHERTYPE_IPV4);
        hdr.ipv4.setValid();
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.dscp = 0;
        hdr.ipv4.ecn = 0;
        hdr.ipv4.total_length = bytes + IPV4_UDP_BYTES;
        hdr.ipv4.identification = 0;
        hdr.ipv4.flags = 2;  // do not fragment
        hdr.ipv4.fragment_offset = 0;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.protocol = PROTOCOL_UDP;
        hdr.ipv4.src_addr = src_addr;
        hdr.ipv4.dst_addr = dst_addr;
        bit<32> sum = 0x4500 + 0x4000 + 0x4011 + (bit<32>)hdr.ipv4.total_length
            + (bit<32>)src_addr[31:16] + (bit<32>)src_addr[15:0]
            + (bit<32>)dst_addr[31:16] + (bit<32>)dst_addr[15:0];
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        hdr.ipv4.checksum = ~sum[15:0];
        hdr.ports.setValid();
        hdr.ports.src_port = src_port;
        hdr.ports.dst_port = ROCE_UDP_PORT;
        hdr.ports.word = (bytes + 8) ++ 16w0;  // no checksum
    }

    action no_session() {
        mark_to_drop(standard_metadata);
    }

    table collectors {
        key = { roce.session: exact; }
        actions = { over_v1; over_v2; no_session; }
        default_action = no_session();
        size = ROCE_SESSIONS;
    }

    action write(
        bit<1> unreliable, bit<24> number, bit<32> rkey, bit<64> base, bit<64> length,
        bit<16> stride, bit<32> slots, bit<1> has_hop, bit<24> ack_mask, bit<32> immediate_mask,
        bit<32> patience) {
        queue_pair.opcode = WRITE_ONLY | (unreliable == 1 ? UC : RC);
        queue_pair.number = number;
        queue_pair.rkey = rkey;
        queue_pair.base = base;
        queue_pair.length = length;
        queue_pair.stride = stride;
        queue_pair.slots = slots;
        queue_pair.has_hop = has_hop;
        queue_pair.ack_mask = ack_mask;
        queue_pair.immediate_mask = immediate_mask;
        queue_pair.patience = patience;
    }

    action fetch_add(
        bit<24> number, bit<32> rkey, bit<64> base, bit<64> length, bit<32> patience) {
        write(0, number, rkey, base, length, 0, 0, 0, 0, 0, patience);
        queue_pair.opcode = FETCH_ADD;
    }

    table queue_pairs {
        key = { roce.session: exact; }
        actions = { write; fetch_add; no_session; }
        default_action = no_session();
        size = ROCE_SESSIONS;
    }

    /* All that the packet had: it is in the record. */
    action take_headers_off() {
        hdr.ethernet.setInvalid();
        hdr.grh.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.ipv4_options.setInvalid();
        hdr.ipv6.setInvalid();
        hdr.ports.setInvalid();
        hdr.tcp.setInvalid();
        hdr.bth.setInvalid();
        hdr.reth.setInvalid();
        hdr.atomic.setInvalid();
        hdr.immediate.setInvalid();
        hdr.aeth.setInvalid();
        hdr.atomic_ack.setInvalid();
        hdr.hop_record.setInvalid();
        hdr.icrc.setInvalid();
    }

    apply {
        fill_record.apply(hdr.flow_record, hdr.ipv4, hdr.ipv6, hdr.ports, hdr.tcp);
        take_headers_off();
        queue_pairs.apply();
        if (queue_pair.opcode != 0) {
            write_body.apply(hdr, roce, hop, queue_pair, wants_probe, bytes);
        }
        if (bytes == 0) {
            no_session();
        } else if (collectors.apply().hit) {
            hdr.icrc.setValid();
            bit<32> icrc = 0;
            compute_icrc.apply(hdr, icrc);
            hdr.icrc.value = icrc;
            bit<16> network = hdr.grh.isValid() ? GRH_BYTES : IPV4_UDP_BYTES;
            truncate((bit<32>)(ETHERNET_BYTES + network + bytes));
            if (wants_probe == 1) {
                roce.is_probe = 1;  // the clone that is made of this one
                clone_preserving_field_list(
                    CloneType.E2E, (bit<32>)roce.session, RECORD_FIELDS);
            }
        }
    }
}

#endif
