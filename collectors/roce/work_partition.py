"""Distribution of records to worker processes. Each range of records goes to one worker.

The queue is a pipe in packet mode (pipe2(2), O_DIRECT), so the kernel delivers each message to
exactly one reader. If a worker dies, its ranges are not distributed again.
"""

import os
import struct
from collections.abc import Iterator

_RANGE = struct.Struct("=QQ")


class WorkPartition:
    """Partition of one writer's ring of `count` records into ranges, one after the other.

    Create it before the workers are forked.
    """

    def __init__(self, count: int, most: int) -> None:
        """A range has at most `most` records."""
        self.overrun = 0  # number of records that were overwritten before they could be distributed
        self._count, self._most = count, most
        self._given = 0  # number of records that were distributed, in all laps together
        self._reading, self._writing = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)

    def distribute(self, immediate: int) -> None:
        """Distribute new records.

        `immediate` is the number of records written so far, modulo 2^32.

        Blocks while the pipe is full. Meanwhile, the endpoint takes no completions, so the writer
        has to wait, too.
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

    def distribute_to_slot(self, slot: int) -> None:
        """Distribute records after a completion of a switch.

        The immediate value of such a completion is the slot that was written.

        There must be at least one such completion per lap of the ring. A lap without a completion
        is not detected.
        """
        self.distribute(self._given + (slot - self._given) % self._count + 1)

    def end(self) -> None:
        """Close the queue. Workers get the remaining ranges, and then stop."""
        os.close(self._writing)

    def ranges(self) -> Iterator[slice]:
        """Iterate over the ranges of this worker.

        The iteration ends after end(), when the queue is empty.
        """
        os.close(self._writing)
        while message := os.read(self._reading, _RANGE.size):
            at, length = _RANGE.unpack(message)
            yield slice(at, at + length)
