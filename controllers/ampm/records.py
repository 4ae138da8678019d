"""Records of one block at measuring points, and delays between two points.

A delay is computed only if both records belong to the same block. Otherwise, `problem` gives the
reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from controllers.ampm.schedule import Schedule, colour_of
from controllers.readout import CLOCK_BITS, Readout
from telemark.errors import TestbedError

SAMPLES = 8
"""Number of cells for hashed samples, per block."""

Values = tuple[int, int, int, int]
"""Registers of a record: start of the block, a count (0: never written), and two others."""


class Record(IntEnum):
    """Groups of registers. The control of the same name in p4src/ampm/ describes each group."""

    BLOCK = 1
    PULSE = 2
    SAMPLE = 3


Place = tuple[Record, int]
"""A record and an index into its registers."""


class Point(NamedTuple):
    """Measuring point in a switch: the place where packets arrive, or where packets depart."""

    switch: str
    name: str


class OverwrittenError(TestbedError):
    """Records were read too late: a later block had already overwritten them."""


@dataclass(frozen=True)
class PointRecord:
    """Record of one block at one point.

    Times are in microseconds of the common clock, modulo 2^48. If a count is 0, no such packet
    passed, and the fields that belong to the count are undefined.
    """

    block: int
    packets: int = 0
    sum_us: int = 0  # sum over the packets: time since the block's start
    first_us: int = 0
    pulses: int = 0
    pulse_us: int = 0  # time of the first pulse
    # number of packets of the flow, in all blocks, up to the first pulse (included)
    pulse_count: int = 0
    samples: dict[int, int] = field(default_factory=dict)  # map from hash to time
    bytes: int = 0


@dataclass(frozen=True)
class Delay:
    """Delay between two points in one block. `problem` says why it is missing or inexact."""

    block: int
    delay_us: float | None
    problem: str = ""


def cell_of(flow: int, block: int) -> int:
    """Return the index of a flow and block in a switch's counters and registers."""
    return 2 * flow + colour_of(block)


def places_of(record: Record, flow: int, block: int) -> list[Place]:
    """Return the register locations of a record.

    A record of a flow and block is in one cell, or in one cell per sample.
    """
    cell = cell_of(flow, block)
    if record is Record.SAMPLE:
        return [(record, place) for place in range(SAMPLES * cell, SAMPLES * (cell + 1))]
    return [(record, cell)]


def point_records(
    schedule: Schedule, flow: int, block: int, registers: Mapping[Place, Readout]
) -> tuple[PointRecord, PointRecord]:
    """Return a switch's records of a flow and block, at arrival and at departure.

    `registers` must have been read between half a block and one block after the end of the block.
    They may contain only some kinds of records. If they were read later, raises OverwrittenError.
    """
    found = {
        record: [r for place in places_of(record, flow, block) if (r := registers.get(place))]
        for record in (Record.BLOCK, Record.PULSE, Record.SAMPLE)
    }
    return (
        _point_record(schedule, block, {k: [r.arrival for r in v] for k, v in found.items()}),
        _point_record(schedule, block, {k: [r.departure for r in v] for k, v in found.items()}),
    )


def _point_record(
    schedule: Schedule, block: int, values: Mapping[Record, list[Values]]
) -> PointRecord:
    current = {
        record: [v for v in found if _is_of_block(schedule, block, v)]
        for record, found in values.items()
    }
    fields: dict[str, int] = {}
    for _, packets, sum_us, first_us in current[Record.BLOCK]:
        fields |= {"packets": packets, "sum_us": _signed(sum_us, 64), "first_us": first_us}
    for _, pulses, pulse_us, pulse_count in current[Record.PULSE]:
        fields |= {"pulses": pulses, "pulse_us": pulse_us, "pulse_count": pulse_count}
    samples = {digest: time_us for _, _, time_us, digest in current[Record.SAMPLE]}
    return PointRecord(block, samples=samples, **fields)


def _is_of_block(schedule: Schedule, block: int, values: Values) -> bool:
    start_us, count, *_ = values
    found = schedule.block_of_start(start_us, block)
    if count and found > block:
        raise OverwrittenError(f"block {block} was read too late: block {found} has overwritten it")
    return count > 0 and found == block


def pulse_delay(first: PointRecord, second: PointRecord) -> Delay:
    """Return the delay of the block's pulse.

    If a point does not have exactly one pulse, `problem` is set.
    """
    for place, point in (("first", first), ("second", second)):
        if point.pulses != 1:
            what = f"{point.pulses} pulses" if point.pulses else "no pulse"
            return Delay(first.block, None, f"{what} at the {place} point")
    return Delay(first.block, difference_us(first.pulse_us, second.pulse_us))


def first_packet_delay(first: PointRecord, second: PointRecord) -> Delay:
    """Return the time of the first packet at the second point, minus that at the first point.

    The result is the delay of one packet, unless the first packet was lost or overtaken. If packets
    were lost, `problem` is set, because the first packet may be one of them.
    """
    if first.packets != second.packets or not first.packets:
        return Delay(first.block, None, _counts(first, second))
    return Delay(first.block, difference_us(first.first_us, second.first_us))


def mean_delay(first: PointRecord, second: PointRecord) -> Delay:
    """Return the mean time of packets at the second point, minus that at the first point.

    If no packet was lost, this is the exact mean delay. Otherwise, the two means are of different
    sets of packets (RFC 9341 section 3.2.1.1). Then the delay is given, but `problem` is also set.
    """
    if not first.packets or not second.packets:
        return Delay(first.block, None, _counts(first, second))
    delay_us = second.sum_us / second.packets - first.sum_us / first.packets
    problem = "" if first.packets == second.packets else _counts(first, second)
    return Delay(first.block, delay_us, problem)


def sample_delays(first: PointRecord, second: PointRecord) -> tuple[dict[int, int], int]:
    """Return the delays of packets that both points sampled, and the number of other samples.

    The delays are a map from the time of a packet at the first point (us) to its delay (us).
    """
    common = first.samples.keys() & second.samples.keys()
    delays = {
        first.samples[h]: difference_us(first.samples[h], second.samples[h]) for h in sorted(common)
    }
    return delays, len(first.samples.keys() ^ second.samples.keys())


def pulse_loss(
    earlier: tuple[PointRecord, PointRecord], later: tuple[PointRecord, PointRecord]
) -> int | None:
    """Return how many packets were lost between two points, from one pulse to a later pulse.

    Returns None if a pulse is missing. The number is exact if no packet overtook one of the pulses.
    """
    if any(point.pulses != 1 for point in (*earlier, *later)):
        return None
    first, second = (b.pulse_count - a.pulse_count for a, b in zip(earlier, later, strict=True))
    return first - second


def _counts(first: PointRecord, second: PointRecord) -> str:
    return f"{first.packets} packets at the first point, {second.packets} at the second"


def difference_us(earlier_us: int, later_us: int) -> int:
    """Return the time between two readings of a clock that wraps. The result may be negative."""
    return _signed(later_us - earlier_us, CLOCK_BITS)


def _signed(value: int, bits: int) -> int:
    """Interpret a number modulo 2^bits as a signed number."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half
