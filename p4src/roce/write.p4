/* Converts a clone to a request that writes a record.
 *
 * A program declares three parts before it includes this file: `headers_t`; `metadata_t` with the
 * member `roce`; and `PutRecord`, which creates a record from a packet. */
#ifndef TELEMARK_ROCE_WRITE_P4
#define TELEMARK_ROCE_WRITE_P4

#include "network.p4"
#include "request.p4"

/* Converts the clone to a packet for the collector of the session. */
control WriteRecord(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    PutRecord() put_record;
    WriteBody() write_body;
    ToCollector() to_collector;
    queue_pair_t queue_pair = { 0, 0, 0, 0, 0, 0, 0 };
    ring_t ring = { 0, 0, 0, 0 };
    bit<16> bytes = 0;  // length from BTH to iCRC
    bit<1> wants_probe = 0;

    action no_session() {
        mark_to_drop(standard_metadata);
    }

    action write(
        bit<1> unreliable, bit<24> qpn, bit<32> rkey, bit<64> base, bit<64> length,
        bit<16> stride, bit<32> slots, bit<8> content, bit<24> ack_mask, bit<32> immediate_mask,
        bit<32> patience) {
        queue_pair.opcode = WRITE_ONLY | (unreliable == 1 ? UC : RC);
        queue_pair.number = qpn;
        queue_pair.rkey = rkey;
        queue_pair.base = base;
        queue_pair.length = length;
        queue_pair.ack_mask = ack_mask;
        queue_pair.patience = patience;
        ring.stride = stride;
        ring.slots = slots;
        ring.content = content;
        ring.immediate_mask = immediate_mask;
    }

    action fetch_add(
        bit<24> qpn, bit<32> rkey, bit<64> base, bit<64> length, bit<32> patience) {
        write(0, qpn, rkey, base, length, 0, 0, NO_RECORD, 0, 0, patience);
        queue_pair.opcode = FETCH_ADD;
    }

    table queue_pairs {
        key = { meta.roce.session: exact @name("session"); }
        actions = { write; fetch_add; no_session; }
        default_action = no_session();
        size = ROCE_SESSIONS;
    }

    /* Removes all headers of the packet. The record contains the fields of these headers. */
    action remove_headers() {
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
        hdr.icrc.setInvalid();
    }

    apply {
        queue_pairs.apply();
        if (meta.roce.is_probe == 1) {
            ring.content = NO_RECORD;
        }
        bit<16> record_bytes = 0;
        put_record.apply(hdr, meta, ring.content, record_bytes);
        remove_headers();
        if (queue_pair.opcode != 0) {
            write_body.apply(hdr, meta.roce, queue_pair, ring, record_bytes, wants_probe, bytes);
        }
        to_collector.apply(hdr, meta.roce.session, bytes, standard_metadata);
        if (wants_probe == 1) {
            meta.roce.is_probe = 1;  // the clone of this packet becomes a probe
            clone_preserving_field_list(
                CloneType.E2E, (bit<32>)meta.roce.session, CLONE_FIELDS);
        }
    }
}

#endif
