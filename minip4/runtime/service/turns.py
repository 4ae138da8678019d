"""Pauses of long work in the event loop, so that other tasks can run."""

import asyncio
import time

TURN_S = 0.005  # of work between two pauses


class Turns:
    """The pauses of one piece of work. Without `has_pauses` there are none, for virtual time.

    There, results must not depend on the speed of the machine.
    """

    def __init__(self, *, has_pauses: bool = True) -> None:
        self._has_pauses = has_pauses
        self._began_s = time.monotonic()

    async def pause(self) -> None:
        """Let other tasks run if the work has taken long enough."""
        if self._has_pauses and time.monotonic() - self._began_s >= TURN_S:
            await asyncio.sleep(0)
            self._began_s = time.monotonic()
