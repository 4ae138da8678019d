"""Clocks: the seam between experiments and the kind of time that they run in."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """The common clock of an experiment, its controllers, its switches and its traffic."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""

    async def sleep_until(self, time_ns: int) -> None:
        """Return at `time_ns`, or just after; at once when it has passed."""

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
