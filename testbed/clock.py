"""Clocks: the seam between experiments and the kind of time that they run in."""

import asyncio
import time


class RealClock:
    """CLOCK_MONOTONIC: the clock of the switches, the links and the traffic programs."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start, common to the whole machine."""
        return time.monotonic_ns()

    async def sleep_until(self, time_ns: int) -> None:
        """Return at `time_ns` or just after; at once when it has passed."""
        while (left_ns := time_ns - self.now_ns()) > 0:
            await asyncio.sleep(left_ns / 1e9)
