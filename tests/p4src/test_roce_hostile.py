"""Damaged or hostile frames are forwarded or dropped, and all records are well formed."""

import random

import pytest
from forwarder import damaged
from roce_path import (
    BASE,
    FLOW,
    FLOW_AND_HOP,
    HOP,
    IN,
    OUT,
    TO_COLLECTOR,
    VERSIONS,
    Session,
    Switch,
    answer,
    nak,
    parse_request,
    tcp,
    udp,
)

from collectors.roce.packets import RETH, Op
from minip4.engine.keys import Exact

SLOTS = 5
FRAMES = [
    udp(), tcp(), tcp(version=6), answer(1), answer(1, version="v1"), nak(2),
    answer(1, opcode=Op.ATOMIC_ACKNOWLEDGE), answer(3, version="v1", opcode=Op.ATOMIC_ACKNOWLEDGE),
    answer(1, version="v2_ipv6"), answer(2, version="v2_ipv6", opcode=Op.ATOMIC_ACKNOWLEDGE),
    udp(b"\x0a" + bytes(80), dport=4791), udp(b"\x11" + bytes(19), dport=4791),
    udp(b"\x12" + bytes(5), dport=4791), udp()[:12] + b"\x89\x15" + bytes(70),
]  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_frames_do_no_harm(version: str) -> None:
    """For damaged frames from hosts and from the collector, all records are within the region."""
    stride = FLOW + HOP
    switch, rng, records = Switch(
        Session(version=version, slots=SLOTS, stride=stride, content=FLOW_AND_HOP, immediate_mask=1,
                patience=9)
    ), random.Random(version), 0  # fmt: skip
    switch.add("RoceIngress.forwarding", [Exact(0x0200000000FF)], "RoceIngress.forward", [OUT])
    for _ in range(40):
        for frame in FRAMES:
            came = damaged(frame, rng) if rng.random() < 0.8 else frame
            for port, out in switch.send(came, port=rng.choice((IN, TO_COLLECTOR))):
                if port == TO_COLLECTOR:
                    packet = parse_request(out)
                    records += 1
                    assert 0 <= packet[RETH].va - BASE <= SLOTS * stride - packet[RETH].length
                else:
                    assert (port, out) == (OUT, came)
    assert records > 100


@pytest.mark.parametrize("version", VERSIONS)
def test_any_psn_in_a_response_leaves_records_in_their_slots(version: str) -> None:
    switch, rng = Switch(Session(version=version, slots=SLOTS)), random.Random(3)
    for _ in range(100):
        psn = rng.choice((0, 1, 0x7FFFFF, 0x800000, 0xFFFFFF, rng.randrange(1 << 24)))
        switch.hear(rng.choice((answer, nak))(psn, version=version))
        slots = [(switch.record()[RETH].va - BASE) / FLOW for _ in range(2)]
        assert slots[0] in range(SLOTS)
        assert slots[1] == (slots[0] + 1) % SLOTS
