"""Clocks: experiments use them in the same way in real time and in virtual time."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class ReadableClock(Protocol):
    """Clock that code can read and wait for."""

    def now_ns(self) -> int:
        """Return nanoseconds since an arbitrary start."""

    async def sleep_until(self, time_ns: int) -> None:
        """Wait until `time_ns`. If that time has passed, return immediately."""


class Clock(ReadableClock, Protocol):
    """Clock that an experiment, its controllers, its switches and its traffic share."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine like asyncio.run(); its timers use this clock."""


class RealClock:
    """CLOCK_MONOTONIC. In real time, switches, links and traffic programs also use it."""

    def now_ns(self) -> int:
        """Return nanoseconds since an arbitrary start, which is the same for all processes."""
        return time.monotonic_ns()

    async def sleep_until(self, time_ns: int) -> None:
        """Wait until `time_ns`. If that time has passed, return immediately."""
        while (left_ns := time_ns - self.now_ns()) > 0:
            await asyncio.sleep(left_ns / 1e9)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine like asyncio.run()."""
        return asyncio.run(main)


class ClockAhead:
    """Clock that is ahead of another clock by `ahead_us`; a negative value means behind."""

    def __init__(self, clock: Clock, ahead_us: int) -> None:
        self._clock = clock
        self._ahead_ns = 1000 * ahead_us

    def now_ns(self) -> int:
        """Return nanoseconds of this clock."""
        return self._clock.now_ns() + self._ahead_ns

    async def sleep_until(self, time_ns: int) -> None:
        """Return when this clock shows `time_ns`. If that time has passed, return immediately."""
        await self._clock.sleep_until(time_ns - self._ahead_ns)
