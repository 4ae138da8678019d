"""Turns of the event loop: long work pauses, so that other tasks run meanwhile."""

import asyncio
import time

TURN_S = 0.005  # of work between two pauses


class Turns:
    """The turns of one piece of work. Without `has_pauses` it never pauses, for virtual time:

    there, results must not depend on how fast the machine is.
    """

    def __init__(self, *, has_pauses: bool = True) -> None:
        self._has_pauses = has_pauses
        self._began_s = time.monotonic()

    async def pause(self) -> None:
        """Let other tasks run if this turn has taken long enough."""
        if self._has_pauses and time.monotonic() - self._began_s >= TURN_S:
            await asyncio.sleep(0)
            self._began_s = time.monotonic()
