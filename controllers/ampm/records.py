"""What points know of a block, and what follows from two points: delays, block by block.

A delay comes only from two records of the same block. Where there is none, `problem` says why.
"""

import asyncio
from dataclasses import dataclass, field

from controllers.ampm.readout import Readouts, Record
from controllers.ampm.schedule import CLOCK_BITS, Schedule, colour_of
from testbed.errors import TestbedError

SAMPLES = 8
"""Places for hashed samples in a block."""

Values = tuple[int, int, int, int]
"""A record's registers: the block's beginning, a count (0: never written), and two more."""


class OverwrittenError(TestbedError):
    """Records were read when a later block's had taken their place."""


@dataclass(frozen=True)
class PointRecord:
    """What one point knows of one block; times in microseconds of the common clock, modulo 2^48.

    A count of 0 means that nothing of this block came by, and what belongs to it means nothing.
    """

    block: int
    packets: int = 0
    sum_us: int = 0  # of the packets' times since the block began
    first_us: int = 0
    pulses: int = 0
    pulse_us: int = 0  # of the first pulse
    pulse_count: int = 0  # packets of the flow that had passed by then, of all blocks
    samples: dict[int, int] = field(default_factory=dict)  # hash -> time


@dataclass(frozen=True)
class Delay:
    """The delay of a block between two points, or why there is none."""

    block: int
    delay_us: float | None
    problem: str = ""


async def read_block(
    readouts: Readouts, schedule: Schedule, flow: int, block: int
) -> tuple[PointRecord, PointRecord]:
    """A switch's records of a flow's block, at the points of arrival and of departure.

    To be read between half a block and one block after the block's end. Raises OverwrittenError
    when it was later, NoReadoutError when the switch does not answer.
    """
    cell = 2 * flow + colour_of(block)
    places = range(SAMPLES * cell, SAMPLES * (cell + 1))
    wanted = [(Record.BLOCK, cell), (Record.PULSE, cell), *((Record.SAMPLE, p) for p in places)]
    answers = await asyncio.gather(*(readouts.read(*w) for w in wanted))
    try:
        return (
            point_record(schedule, block, [a.arrival for a in answers]),
            point_record(schedule, block, [a.departure for a in answers]),
        )
    except OverwrittenError as error:
        raise OverwrittenError(f"switch {readouts.name}, flow {flow}: {error}") from error


def point_record(schedule: Schedule, block: int, answers: list[Values]) -> PointRecord:
    """One point's record from its registers: of the block, of its pulse, and of its samples."""
    packets, pulse, *samples = (_of_block(schedule, block, values) for values in answers)
    return PointRecord(
        block,
        *(packets[1], _signed(packets[2], 64), packets[3]) if packets else (0, 0, 0),
        *pulse[1:] if pulse else (0, 0, 0),
        {values[3]: values[2] for values in samples if values},
    )


def _of_block(schedule: Schedule, block: int, values: Values) -> Values | None:
    start_us, count, *_ = values
    found = schedule.block_of_start(start_us, block)
    if not count or found < block:
        return None
    if found > block:
        raise OverwrittenError(f"block {block} was read when block {found} had begun")
    return values


def pulse_delay(first: PointRecord, second: PointRecord) -> Delay:
    """The delay of the block's pulse: none where it is missing, or not the only one."""
    for place, point in (("first", first), ("second", second)):
        if point.pulses != 1:
            what = f"{point.pulses} pulses" if point.pulses else "no pulse"
            return Delay(first.block, None, f"{what} at the {place} point")
    return Delay(first.block, _difference_us(first.pulse_us, second.pulse_us))


def first_packet_delay(first: PointRecord, second: PointRecord) -> Delay:
    """The difference of the first packets' times: of one packet, unless that was lost or overtaken.

    Where packets were lost it says so as a problem, since the first one may be among them.
    """
    if first.packets != second.packets or not first.packets:
        return Delay(first.block, None, _counts(first, second))
    return Delay(first.block, _difference_us(first.first_us, second.first_us))


def mean_delay(first: PointRecord, second: PointRecord) -> Delay:
    """The difference of mean times: the packets' mean delay, exact where none was lost.

    With loss it compares the mean time of those sent with that of those received (RFC 9341 section
    3.2.1.1), and `problem` says so beside the delay.
    """
    if not first.packets or not second.packets:
        return Delay(first.block, None, _counts(first, second))
    delay_us = second.sum_us / second.packets - first.sum_us / first.packets
    problem = "" if first.packets == second.packets else _counts(first, second)
    return Delay(first.block, delay_us, problem)


def sample_delays(first: PointRecord, second: PointRecord) -> tuple[list[int], int]:
    """Delays of the samples that both points have, in microseconds; how many only one has."""
    common = first.samples.keys() & second.samples.keys()
    delays = [_difference_us(first.samples[h], second.samples[h]) for h in sorted(common)]
    return delays, len(first.samples.keys() ^ second.samples.keys())


def pulse_loss(
    earlier: tuple[PointRecord, PointRecord], later: tuple[PointRecord, PointRecord]
) -> int | None:
    """Packets lost between the points from one pulse to a later one; None without both pulses.

    Exact if no packet overtook a pulse.
    """
    if any(point.pulses != 1 for point in (*earlier, *later)):
        return None
    first, second = (b.pulse_count - a.pulse_count for a, b in zip(earlier, later, strict=True))
    return first - second


def _counts(first: PointRecord, second: PointRecord) -> str:
    return f"{first.packets} packets at the first point, {second.packets} at the second"


def _difference_us(earlier_us: int, later_us: int) -> int:
    return _signed(later_us - earlier_us, CLOCK_BITS)


def _signed(value: int, bits: int) -> int:
    """A number modulo 2^bits as the nearest one to 0."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half
