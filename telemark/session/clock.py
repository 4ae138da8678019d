"""Clocks: the seam between experiments and the kind of time that they run in."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class ReadableClock(Protocol):
    """A clock that shows a time, and at which one can wait for a time."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""

    async def sleep_until(self, time_ns: int) -> None:
        """Return at `time_ns`, or just after; at once when it has passed."""


class Clock(ReadableClock, Protocol):
    """The common clock of an experiment, its controllers, its switches and its traffic."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, as asyncio.run() does; its timers use this clock too."""


class RealClock:
    """CLOCK_MONOTONIC: the clock of the switches, the links and the traffic programs."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start, common to the whole machine."""
        return time.monotonic_ns()

    async def sleep_until(self, time_ns: int) -> None:
        """Return at `time_ns` or just after; at once when it has passed."""
        while (left_ns := time_ns - self.now_ns()) > 0:
            await asyncio.sleep(left_ns / 1e9)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return asyncio.run(main)


class ClockAhead:
    """A clock that is `ahead_us` ahead of another one; below 0: behind."""

    def __init__(self, clock: Clock, ahead_us: int) -> None:
        self._clock = clock
        self._ahead_ns = 1000 * ahead_us

    def now_ns(self) -> int:
        """Nanoseconds, as this clock has them."""
        return self._clock.now_ns() + self._ahead_ns

    async def sleep_until(self, time_ns: int) -> None:
        """Return when this clock shows `time_ns`; at once when that has passed."""
        await self._clock.sleep_until(time_ns - self._ahead_ns)
