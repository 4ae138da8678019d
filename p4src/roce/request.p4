/* Request to a collector about a packet: WRITE of a record into a ring, or FETCH ADD. */
#ifndef TELEMARK_ROCE_REQUEST_P4
#define TELEMARK_ROCE_REQUEST_P4

#include "transport.p4"
#include "watch.p4"

struct ring_t {
    bit<16> stride;  // distance in bytes from the start of a slot to the start of the next slot
    bit<32> slots;
    bit<8> content;  // content of a record (records.p4)
    bit<32> immediate_mask;  // an immediate is sent if slot & immediate_mask == immediate_mask
}

/* Writes the headers from BTH to the record. Returns the number of bytes with iCRC; 0 means no
 * request. */
control WriteBody(
    inout headers_t hdr, in roce_t roce, in queue_pair_t queue_pair, in ring_t ring,
    in bit<16> record_bytes, inout bit<1> wants_probe, inout bit<16> bytes) {
    AllocateNumber() take_number;
    PutRequest() put_request;
    PutProbe() put_probe;
    number_t number = { 0, 0, 0, 0 };
    request_t request = { 0, 0, 0, 0, 0 };

    apply {
        bit<1> is_inside = 0;
        if (roce.is_probe == 1) {
            put_probe.apply(hdr, roce.session, queue_pair, bytes);
        } else {
            if (queue_pair.opcode == FETCH_ADD) {
                request.offset = (bit<64>)roce.cell << 3;
                request.addend = roce.addend;
                is_inside = request.offset + 8 <= queue_pair.length ? 1w1 : 0;
            } else {
                // Checks all slots, not only this slot. So no register has changed when the
                // check fails.
                bit<64> last = (bit<64>)(ring.slots - 1) * (bit<64>)ring.stride;
                is_inside = record_bytes != 0 && ring.slots != 0 && ring.stride >= record_bytes
                    && last + (bit<64>)record_bytes <= queue_pair.length ? 1w1 : 0;
            }
            if (is_inside == 1) {
                take_number.apply(roce.session, queue_pair.patience, ring.slots, number);
                wants_probe = number.wants_probe;
                if (queue_pair.opcode != FETCH_ADD) {
                    request.offset = (bit<64>)number.slot * (bit<64>)ring.stride;
                    request.payload_bytes = record_bytes;
                    request.immediate = number.slot;
                    request.has_immediate =
                        (number.slot & ring.immediate_mask) == ring.immediate_mask ? 1w1 : 0;
                }
                put_request.apply(hdr, queue_pair, request, number, bytes);
            } else {
                roce_events.count(ROCE_EVENT(roce.session, OUT_OF_REGION));
            }
        }
    }
}

#endif
