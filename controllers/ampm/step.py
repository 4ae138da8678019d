"""Controls step marking along one path: fills the tables, then reads each block's idle counters.

The P4 side is p4src/ampm/step.p4; RFC 9341 section 3.1 describes the method.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol

import finsy as fy

from controllers.ampm.schedule import Schedule, colour_of
from testbed.errors import TestbedError


class Clock(Protocol):
    """The common clock of controller, hosts and switches, in nanoseconds."""

    def now_ns(self) -> int: ...
    async def sleep_until(self, time_ns: int) -> None: ...


@dataclass(frozen=True)
class WatchedFlow:
    """A flow on the watch list: its number (0..1023), and what its packets look like."""

    number: int
    src_addr: str
    dst_addr: str
    protocol: int
    dst_port: int


@dataclass(frozen=True)
class Hop:
    """One switch of the path, as the controller reaches it.

    `clock_offset_us` is what must be added to the switch's clock to get the common clock.
    """

    switch: fy.Switch
    clock_offset_us: int = 0

    @property
    def name(self) -> str:
        """The switch's name, e.g. `s1`."""
        return self.switch.name


class Point(NamedTuple):
    """Where packets are counted: the `arrivals` or the `departures` of a switch."""

    switch: str
    counter: str


@dataclass(frozen=True)
class BlockCounts:
    """Packets of one block at each counting point."""

    block: int
    packets: dict[Point, int]


class LateReadError(TestbedError):
    """A block's counters were read when the next block of its colour was near or had begun."""


class StepController:
    """Step marking of one flow along `hops` (first switch first); an async context manager.

    Raises finsy's P4ClientError when a switch refuses an update, LateReadError as `blocks` says.
    """

    def __init__(
        self, hops: Sequence[Hop], flow: WatchedFlow, schedule: Schedule, clock: Clock
    ) -> None:
        self.hops = hops
        self.flow = flow
        self.schedule = schedule
        self.clock = clock
        self._connections = AsyncExitStack()

    async def __aenter__(self) -> "StepController":
        for hop in self.hops:
            await self._connections.enter_async_context(hop.switch)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connections.aclose()

    async def watch(self) -> None:
        """Put the flow on every switch's watch list, downstream first.

        So no packet is marked before all who must count and clear its mark are ready.
        """
        first, last = self.hops[0], self.hops[-1]
        for hop in reversed(self.hops):
            if hop is first:
                action = fy.Action(
                    "mark", flow=self.flow.number, block_shift=self.schedule.block_shift
                )
            else:
                name = "observe_and_clear" if hop is last else "observe"
                action = fy.Action(name, flow=self.flow.number)
            await hop.switch.write(
                [
                    ~fy.P4TableEntry(
                        "clock",
                        action=fy.Action("set_clock_offset", offset_us=hop.clock_offset_us),
                        is_default_action=True,
                    ),
                    +fy.P4TableEntry(
                        "watch_list",
                        match=fy.Match(
                            {
                                "hdr.ipv4.src_addr": self.flow.src_addr,
                                "hdr.ipv4.dst_addr": self.flow.dst_addr,
                                "hdr.ipv4.protocol": self.flow.protocol,
                                "hdr.ports.dst_port": self.flow.dst_port,
                            }
                        ),
                        priority=1,
                        action=action,
                    ),
                ]
            )

    async def blocks(self, first: int, last: int, guard_us: int) -> AsyncIterator[BlockCounts]:
        """Yield the counts of the blocks `first` to `last`, each read while its colour is idle.

        To be started before `first` begins. `guard_us` is the guard time d: a read that is not
        over d before the next block of its colour raises LateReadError.
        """
        totals = [await self._read(colour) for colour in (0, 1)]
        if self._now_us() >= self.schedule.start_us(first):
            raise LateReadError(f"block {first} began before the first reading of the counters")
        for block in range(first, last + 1):
            await self.clock.sleep_until(1000 * self.schedule.reading_us(block))
            now = await self._read(colour_of(block))
            late_us = self._now_us() - (self.schedule.start_us(block + 2) - guard_us)
            if late_us > 0:
                raise LateReadError(
                    f"block {block} was read {late_us} us too late for its counters to stand "
                    f"still: this machine is too slow for blocks of {self.schedule.block_us} us "
                    "(longer ones: --block-us)"
                )
            before, totals[colour_of(block)] = totals[colour_of(block)], now
            yield BlockCounts(block, {point: now[point] - before[point] for point in now})

    def _now_us(self) -> int:
        return self.clock.now_ns() // 1000

    async def _read(self, colour: int) -> dict[Point, int]:
        """Packets counted so far in one colour, at each point of the path."""
        readings = await asyncio.gather(*(self._read_hop(hop, colour) for hop in self.hops))
        return {point: packets for reading in readings for point, packets in reading.items()}

    async def _read_hop(self, hop: Hop, colour: int) -> dict[Point, int]:
        index = 2 * self.flow.number + colour
        wanted = [fy.P4CounterEntry(name, index=index) for name in ("arrivals", "departures")]
        # finsy's overloads of read() name a coroutine; it is an async generator.
        return {
            Point(hop.name, entry.counter_id): entry.packet_count
            async for entry in hop.switch.read(wanted)  # type: ignore[attr-defined]
        }
