"""Pauses of long operations in the event loop, so that other tasks can run."""

import asyncio
import time

TURN_S = 0.005  # seconds of work between two pauses


class Turns:
    """The pauses of one operation.

    Without `has_pauses` (in virtual time) there are no pauses, because results must not depend on
    the speed of the machine.
    """

    def __init__(self, *, has_pauses: bool = True) -> None:
        self._has_pauses = has_pauses
        self._began_s = time.monotonic()

    async def pause(self) -> None:
        """Let other tasks run if TURN_S has passed since the last pause."""
        if self._has_pauses and time.monotonic() - self._began_s >= TURN_S:
            await asyncio.sleep(0)
            self._began_s = time.monotonic()
