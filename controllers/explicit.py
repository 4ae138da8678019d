"""Observer of explicit flow measurements: watched connections, and delay and loss of a stream.

This module configures and reads p4src/explicit/explicit.p4. All counts are cumulative, so the
difference of two readings is the count of the time between them.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import nan

import finsy as fy

from controllers.readout import Readouts
from telemark.apps.explicit_bits import BLOCK, T_MAX_NS, THRESHOLD, Scheme
from telemark.errors import TestbedError

STREAMS = 1024  # EXPLICIT_STREAMS of the program
PROTECTION = 0.1  # K as a fraction of T_Max (RFC 9506 section 3.2.5)


class Direction(IntEnum):
    """Direction of a stream."""

    TO_SERVER = 0
    TO_CLIENT = 1


class Record(IntEnum):
    """Readout records of the program."""

    SPIN = 1
    DELAY = 2
    HALF = 3
    SQUARE = 4
    REFLECTION = 5
    LOSS = 6
    TRIP = 7


@dataclass(frozen=True)
class Connection:
    """QUIC connection on the watch list. Raises TestbedError for invalid fields."""

    number: int  # from 0; the observer assigns two streams to it
    client: tuple[str, int]  # IPv4 address and UDP port
    server: tuple[str, int]
    scheme: Scheme
    block: int = BLOCK  # length N of the blocks of the square bit
    threshold: int = THRESHOLD  # marking block threshold X
    t_max_us: int = T_MAX_NS // 1000

    def __post_init__(self) -> None:
        limits = {
            "number": (0, STREAMS // 2 - 1), "block": (2, 0xFFFF),
            "threshold": (0, (self.block - 1) // 2), "t_max_us": (1, 10**9),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise TestbedError(
                    f"connection {self.number}: {name} {value}: expected {low} to {high}"
                )

    def stream(self, direction: Direction) -> int:
        """Return the index of a stream in the registers."""
        return 2 * self.number + direction

    def entries(self) -> list[fy.P4TableEntry]:
        """Return the entries of the watch list, one for each direction."""
        ends = [(self.client, self.server), (self.server, self.client)]
        return [
            fy.P4TableEntry(
                "watch_list",
                match=fy.Match(
                    {
                        "hdr.ipv4.src_addr": source[0], "hdr.ipv4.dst_addr": destination[0],
                        "hdr.ports.src_port": source[1], "hdr.ports.dst_port": destination[1],
                    }
                ),
                action=fy.Action(
                    "observe", index=self.stream(direction), scheme=int(self.scheme),
                    block=self.block, threshold=self.threshold,
                    limit_us=round(self.t_max_us * (1 - PROTECTION)),
                ),
            )
            for direction, (source, destination) in zip(Direction, ends, strict=True)
        ]  # fmt: skip


@dataclass(frozen=True)
class DelaySamples:
    """Statistics of delay samples, in microseconds."""

    count: int
    sum_us: int
    min_us: int  # min_us and max_us are 0 without samples
    max_us: int

    @property
    def mean_us(self) -> float:
        """Mean; NaN without samples."""
        return self.sum_us / self.count if self.count else nan


@dataclass(frozen=True)
class SquareCounts:
    """Complete blocks of a square wave, and the packets that the observer counted in them."""

    blocks: int
    packets: int
    block: int  # number of packets that the sender puts into a block

    @property
    def loss(self) -> float:
        """Loss ratio; NaN without complete blocks."""
        return 1 - self.packets / (self.blocks * self.block) if self.blocks else nan

    @property
    def lost(self) -> int:
        """Number of packets that are missing in the blocks."""
        return self.blocks * self.block - self.packets


@dataclass(frozen=True)
class LossCounts:
    """Packets of a stream, and those with the loss event bit."""

    packets: int
    marked: int

    @property
    def loss(self) -> float:
        """Loss ratio of the whole path; NaN without packets."""
        return self.marked / self.packets if self.packets else nan


@dataclass(frozen=True)
class TripCounts:
    """Complete pairs of trains (packets with the round-trip loss bit): their number and packets."""

    pairs: int
    generated: int  # packets in the first trains
    reflected: int  # packets in the second trains

    @property
    def loss(self) -> float:
        """Loss ratio of a round trip; NaN without packets."""
        return 1 - self.reflected / self.generated if self.generated else nan


@dataclass(frozen=True)
class StreamReport:
    """Measurements of one stream. The scheme of the connection determines which are not empty."""

    spin: DelaySamples  # RTT
    delay: DelaySamples  # RTT
    half: DelaySamples  # from the observer to the sender of the stream, and back
    square: SquareCounts
    reflection: SquareCounts
    loss: LossCounts
    trip: TripCounts

    @property
    def downstream_loss(self) -> float:
        """Loss ratio between observer and receiver, from Q and L (RFC 9506 section 4.3.2)."""
        return second_segment_loss(self.square.loss, self.loss.loss)


def second_segment_loss(first: float, both: float) -> float:
    """Return the loss ratio of the second of two segments.

    `first` is the loss ratio of the first segment, `both` that of both segments together.
    """
    return (both - first) / (1 - first)


async def read_stream(
    readouts: Readouts, connection: Connection, direction: Direction
) -> StreamReport:
    """Read the registers of a stream. Raises ReadoutTimeoutError."""
    index = connection.stream(direction)
    answers = await asyncio.gather(*(readouts.read(record, index) for record in Record))
    values = {record: answer.arrival for record, answer in zip(Record, answers, strict=True)}
    square, reflection = (
        SquareCounts(*values[record][:2], connection.block)
        for record in (Record.SQUARE, Record.REFLECTION)
    )
    return StreamReport(
        DelaySamples(*values[Record.SPIN]),
        DelaySamples(*values[Record.DELAY]),
        DelaySamples(*values[Record.HALF]),
        square,
        reflection,
        LossCounts(*values[Record.LOSS][:2]),
        TripCounts(*values[Record.TRIP][:3]),
    )


async def read_streams(
    switch: fy.Switch, connections: Sequence[Connection]
) -> list[dict[Direction, StreamReport]]:
    """Return the reports of both streams of each connection. Raises ReadoutTimeoutError."""
    async with Readouts(switch) as readouts:
        return [
            {each: await read_stream(readouts, connection, each) for each in Direction}
            for connection in connections
        ]
