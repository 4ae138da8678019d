"""Controls step marking along one path: fills the tables, then reads each block's idle counters.

The P4 side is p4src/ampm/step.p4; RFC 9341 section 3.1 describes the method.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

import finsy as fy

from controllers.ampm.schedule import Schedule, colour_of
from controllers.ampm.watch import Clock, Hop, WatchedFlow, set_schedule, watch_flow
from testbed.errors import TestbedError


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
        """Give the switches their schedule, and put the flow on their watch lists."""
        for hop in self.hops:
            await set_schedule(hop, self.schedule)
        await watch_flow(self.hops, self.flow)

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
