"""Where records are written: PSNs and slots wrap, and no slot is skipped.

All records are within the region.
"""

import pytest
from roce_path import (
    BASE,
    FLOW,
    FLOW_AND_HOP,
    HOP,
    Session,
    Switch,
    nak,
    parse_request,
    slot_of,
    udp,
)

from collectors.roce.packets import BTH, RETH, AtomicETH


def test_psns_wrap_at_24_bits() -> None:
    switch = Switch()
    switch.hear(nak(0xFFFFFE))
    assert [switch.record()[BTH].psn for _ in range(4)] == [0xFFFFFE, 0xFFFFFF, 0, 1]


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 8])
def test_each_slot_gets_its_record_lap_after_lap(slots: int) -> None:
    switch = Switch(Session(slots=slots))
    assert [slot_of(switch.record()) for _ in range(3 * slots + 1)] == [
        *list(range(slots)) * 3,
        0,
    ]


@pytest.mark.parametrize("stride", [FLOW, 64])
def test_the_last_slot_may_end_with_the_region(stride: int) -> None:
    length = 2 * stride + FLOW
    switch = Switch(Session(slots=3, stride=stride, length=length))
    ends = [switch.record()[RETH].va + FLOW - BASE for _ in range(6)]
    assert max(ends) == length


@pytest.mark.parametrize(
    "session",
    [
        Session(slots=3, length=3 * FLOW - 1),
        Session(slots=0, length=1000),
        Session(slots=0xFFFFFFFF, length=1000),
        Session(stride=FLOW - 1, length=1000),
        Session(stride=FLOW, length=1000, content=FLOW_AND_HOP),
        Session(stride=FLOW + HOP, slots=2, length=2 * (FLOW + HOP) - 1, content=FLOW_AND_HOP),
        Session(stride=0xFFFF, slots=0x80000000, length=1 << 46),
    ],
    ids=lambda session: f"{session.slots} x {session.stride} of {session.length}",
)
def test_records_outside_the_region_are_not_sent(session: Session) -> None:
    switch = Switch(session)
    assert switch.records(udp()) == []
    assert switch.events() == {"out of region": 1}
    assert switch.state()[:2] == (0, 0)


def test_counters_lie_in_the_region() -> None:
    cells, sent = {0: True, 6: True, 7: False, (1 << 32) - 1: False}, {}
    for cell in cells:
        switch = Switch(Session(fetch_add=True, length=63), watch=False)
        switch.watch("count_packet", [1, cell])
        records = switch.records(udp())
        sent[cell] = bool(records)
        assert [parse_request(each)[AtomicETH].va for each in records] == [BASE + 8 * cell] * sent[
            cell
        ]
    assert sent == cells


def test_a_region_beyond_32_bits_is_written_to_its_end() -> None:
    """The last slot of a region of 2^47 bytes is written, and the next record is in slot 0.

    The address of the last slot needs a product of more than 32 bits.
    """
    slots, stride = 0x7FFFFFFF, 0xFFFF
    switch = Switch(Session(slots=slots, stride=stride))
    switch.record()
    switch.hear(nak(0xFFFFFF))  # go back by one record, to the last slot
    assert switch.record()[RETH].va == BASE + (slots - 1) * stride
    assert slot_of(switch.record()) == 0
