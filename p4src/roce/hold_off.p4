/* The RoCE switch with a hold-off period after PSNs were set back. It is used only for comparison.
 *
 * In the hold-off period, egress drops HOLD_OFF records. DTA's published translator does this in
 * order to wait for packets in flight. The period is unnecessary, because packets in flight arrive
 * before later packets. */
#include "pipeline.p4"

const bit<32> HOLD_OFF = 100000;  // number of records that are dropped

control HoldOff(in bit<8> session, inout bit<1> is_held) {
    // value of roce_resumed when the last record was sent
    register<bit<32>>(ROCE_SESSIONS) roce_seen;
    register<bit<32>>(ROCE_SESSIONS) roce_held;  // number of records that are still to be dropped

    action hold() {
        bit<32> index = (bit<32>)session;
        bit<32> resumed;
        bit<32> seen;
        bit<32> left;
        roce_resumed.read(resumed, index);
        roce_seen.read(seen, index);
        roce_held.read(left, index);
        if (resumed != 0 && resumed != seen) {
            left = HOLD_OFF;
        }
        is_held = left != 0 ? 1w1 : 0;
        left = left != 0 ? left - 1 : 0;
        roce_seen.write(index, resumed);
        roce_held.write(index, left);
    }

    apply {
        hold();
    }
}

control HoldingEgress(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    HoldOff() hold_off;
    RoceEgress() egress;

    apply {
        bit<1> is_held = 0;
        if (standard_metadata.instance_type == EGRESS_CLONE && meta.roce.is_probe == 0) {
            hold_off.apply(meta.roce.session, is_held);
        }
        if (is_held == 1) {
            mark_to_drop(standard_metadata);
        } else {
            egress.apply(hdr, meta, standard_metadata);
        }
    }
}

V1Switch(
    RoceParser(), RoceVerifyChecksum(), RoceIngress(), HoldingEgress(), RoceComputeChecksum(),
    RoceDeparser()) main;
