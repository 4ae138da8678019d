"""Work handed to processes: ranges of records, each taken by one of them.

A pipe in packet mode (pipe2(2), O_DIRECT) is the queue: the kernel gives each message to one
reader. Whoever holds a range when it dies has it: what it did not do is not handed out again.
"""

import os
import struct
from collections.abc import Iterator

_RANGE = struct.Struct("=QQ")


class Shares:
    """Of one writer's ring of `count` records; made before the processes that share it (fork)."""

    def __init__(self, count: int, most: int) -> None:
        """`most` records are handed out at a time, at most."""
        self.overrun = 0  # records that were overwritten before they were handed out
        self._count, self._most = count, most
        self._given = 0  # records so far, of all laps
        self._reading, self._writing = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)

    def give(self, immediate: int) -> None:
        """A completion came: `immediate` is how many records were written so far, modulo 2^32.

        Waits where the pipe is full: then completions wait, too, and the writer has to.
        """
        new = (immediate - self._given) % (1 << 32)
        first = self._given
        self._given += new
        if new > self._count:
            self.overrun += new - self._count
            first = self._given - self._count
        while first < self._given:
            at = first % self._count
            length = min(self._given - first, self._most, self._count - at)
            os.write(self._writing, _RANGE.pack(at, length))
            first += length

    def give_slot(self, slot: int) -> None:
        """A completion of a switch of ours came, whose immediate value is the slot it wrote to.

        A ring must have one a lap at least: laps without one are not seen.
        """
        self.give(self._given + (slot - self._given) % self._count + 1)

    def end(self) -> None:
        """Nothing more is given: who takes gets what is left, then nothing."""
        os.close(self._writing)

    def taken(self) -> Iterator[slice]:
        """In a worker: ranges of records, each to one worker, until the end."""
        os.close(self._writing)
        while message := os.read(self._reading, _RANGE.size):
            at, length = _RANGE.unpack(message)
            yield slice(at, at + length)
