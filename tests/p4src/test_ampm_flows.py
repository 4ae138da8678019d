"""A full watch list: 1,024 flows, with all methods, cross three switches. All records are exact."""

import random
from collections import defaultdict
from typing import NamedTuple

from ampm_path import BLOCK, FIRST, LAST, MIDDLE, PULSE, SAMPLE, L, Record, Switch, frame, marks

from controllers.ampm.watch import Method

FLOWS = 1024  # AMPM_FLOWS in p4src/ampm/watch.p4
METHODS = [
    Method.STEP,
    Method.PULSE,
    Method.DOUBLE,
    Method.MULTIPLEXED,
    Method.STEP | Method.HASHED,
]
FIRST_BLOCK, BLOCKS = 8, 2
DELAY_US = 100
LOSS = 0.1


class Passing(NamedTuple):
    """A packet at a switch: arrival time, flow, block, whether it is a pulse, and content."""

    time_us: int
    flow: int
    block: int
    is_pulse: bool
    data: bytes


def method_of(flow: int) -> Method:
    return METHODS[flow % len(METHODS)]


def sent(rng: random.Random) -> list[Passing]:
    """Return the packets of all flows: at random times, and at most ten per flow."""
    frames = [frame(flow) for flow in range(FLOWS)]
    start_us, end_us = FIRST_BLOCK * L, (FIRST_BLOCK + BLOCKS) * L
    return sorted(
        Passing(time_us, flow, time_us // L, False, frames[flow])
        for flow in range(FLOWS)
        for time_us in (rng.randrange(start_us, end_us) for _ in range(rng.randrange(11)))
    )


def pass_on(switch: Switch, packets: list[Passing], *, is_first: bool) -> list[Passing]:
    """Send all packets through one switch. The first switch of the path sets their marks."""
    out = []
    for time_us, flow, block, is_pulse, data in packets:
        left = switch.pass_on(data, time_us)
        if is_first:
            colour, pulse = marks(left)
            inverted = method_of(flow) == Method.MULTIPLEXED and colour != block & 1
            is_pulse = bool(pulse) or inverted
        if method_of(flow) == Method.PULSE:  # each switch determines the block from the time
            block = time_us // L
        out.append(Passing(time_us, flow, block, is_pulse, left))
    return out


def expected(packets: list[Passing]) -> dict[tuple[int, int], tuple[Record, Record, Record]]:
    """Return the expected records of each flow and block: of the block, its pulse, and its sample.

    The hash of the sample is omitted.
    """
    running: dict[int, int] = defaultdict(int)
    times: dict[tuple[int, int], list[int]] = defaultdict(list)
    pulses: dict[tuple[int, int], Record] = {}
    for time_us, flow, block, is_pulse, _ in packets:
        running[flow] += 1
        times[flow, block].append(time_us)
        if is_pulse:
            assert (flow, block) not in pulses
            pulses[flow, block] = Record(block * L, (1, time_us, running[flow]))
    nothing = Record(0, (0, 0, 0))
    return {
        (flow, block): (
            Record(block * L, (len(seen), sum(seen) - len(seen) * block * L, seen[0])),
            pulses.get((flow, block), nothing),
            Record(block * L, (len(seen), seen[0], 0)),
        )
        for (flow, block), seen in times.items()
    }


def test_each_of_a_thousand_flows_is_counted_exactly() -> None:
    rng = random.Random(5)
    packets = sent(rng)
    pulses = 0
    for role in (FIRST, MIDDLE, LAST):
        switch = Switch(role, Method.STEP, flows=0)
        for flow in range(FLOWS):
            switch.watch(role, method_of(flow), dst_port=5000 + flow, flow=flow)
        passed = pass_on(switch, packets, is_first=role == FIRST)
        true = expected(passed)
        for flow in range(FLOWS):
            for block in range(FIRST_BLOCK, FIRST_BLOCK + BLOCKS):
                check(switch, flow, block & 1, true.get((flow, block)))
        pulses += sum(packet.is_pulse for packet in passed)
        packets = [
            packet._replace(time_us=packet.time_us + DELAY_US)
            for packet in passed
            if rng.random() >= LOSS
        ]
    # no marks after the last switch
    assert [p.data for p in passed] == [frame(p.flow) for p in passed]
    assert len(passed) > FLOWS
    assert pulses > FLOWS


def check(
    switch: Switch, flow: int, colour: int, true: tuple[Record, Record, Record] | None
) -> None:
    cell = 2 * flow + colour
    nothing = Record(0, (0, 0, 0))
    block, pulse, sample = true or (nothing, nothing, nothing)
    assert switch.packets(flow, colour) == (block.values[0],) * 2
    assert switch.read(BLOCK, cell) == (block, block)
    assert switch.read(PULSE, cell) == (pulse, pulse)
    if method_of(flow) & Method.HASHED:
        found = [switch.read(SAMPLE, 8 * cell + place)[0] for place in range(8)]
        used = [record for record in found if record != nothing]
        assert [(u.block_us, u.values[:2]) for u in used] == [
            (sample.block_us, sample.values[:2]) for _ in range(bool(true))
        ]
