"""Clocks: the interface between experiments and real or virtual time."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class ReadableClock(Protocol):
    """Clock that can be read and waited for."""

    def now_ns(self) -> int:
        """Return nanoseconds since an arbitrary start."""

    async def sleep_until(self, time_ns: int) -> None:
        """Return at or just after `time_ns`; immediately if it has passed."""


class Clock(ReadableClock, Protocol):
    """Common clock of an experiment, its controllers, switches and traffic."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine like asyncio.run(); its timers use this clock."""


class RealClock:
    """CLOCK_MONOTONIC, also the clock of switches, links and traffic programs in real time."""

    def now_ns(self) -> int:
        """Return nanoseconds since an arbitrary start, common to all processes."""
        return time.monotonic_ns()

    async def sleep_until(self, time_ns: int) -> None:
        """Return at or just after `time_ns`; immediately if it has passed."""
        while (left_ns := time_ns - self.now_ns()) > 0:
            await asyncio.sleep(left_ns / 1e9)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine like asyncio.run()."""
        return asyncio.run(main)


class ClockAhead:
    """Clock that is `ahead_us` ahead of a different clock; a negative value means behind."""

    def __init__(self, clock: Clock, ahead_us: int) -> None:
        self._clock = clock
        self._ahead_ns = 1000 * ahead_us

    def now_ns(self) -> int:
        """Return nanoseconds of this clock."""
        return self._clock.now_ns() + self._ahead_ns

    async def sleep_until(self, time_ns: int) -> None:
        """Return when this clock shows `time_ns`; immediately if that time has passed."""
        await self._clock.sleep_until(time_ns - self._ahead_ns)
