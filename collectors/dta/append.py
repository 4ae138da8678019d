"""DTA Append: lists in memory, and readers that follow the writes of the translator.

    region = Region(batch(4), lists * batches, Path("lists"))
    rings = region.records.reshape(lists, batches)
    reader = Reader(rings[7])
    while ...:
        entries = reader.pull()

A list is a ring of batches. Each batch ends with a tail: the number of valid entries, and the batch
number. Batch numbers start at 1 and continue across laps of the ring. So a reader needs only the
memory to detect new batches, batches that were never written, and batches that were overwritten
before it read them. Readers do not modify memory, so several readers can each read all entries of a
list.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemark.errors import TestbedError

BATCHES = (1, 2, 4, 8, 16)
"""Allowed numbers of entries per batch, as in the published translator."""

NUMBERS = (1 << 27) - 1
"""Batch numbers run from 1 to NUMBERS, then start at 1 again. 0 means never written."""

_COUNT_SHIFT = 27  # bit offset, in a tail, of the number of valid entries


def batch(entries: int) -> np.dtype[Any]:
    """Return the memory layout of a batch of `entries`. Raises TestbedError if not in BATCHES."""
    if entries not in BATCHES:
        raise TestbedError(f"batches of {entries} entries: expected one of {BATCHES}")
    return np.dtype([("entries", ">u4", (entries,)), ("tail", ">u4")])


def tail(count: int, number: int) -> int:
    """Return the tail of batch `number` with `count` valid entries."""
    return count << _COUNT_SHIFT | number


class Place(NamedTuple):
    """Position of a batch: its number, and its slot in the ring.

    A translator can resume at a position.
    """

    number: int
    slot: int

    def ahead(self, batches: int, ring: int) -> "Place":
        """Return the position `batches` later, in a ring of `ring` batches."""
        return Place((self.number - 1 + batches) % NUMBERS + 1, (self.slot + batches) % ring)


FIRST = Place(1, 0)


def head(ring: NDArray[Any]) -> Place:
    """Return the position of the next batch, where a restarted translator and new readers start."""
    numbers = _numbers(ring)
    written = np.flatnonzero(numbers)
    if not len(written):
        return FIRST
    # Batch numbers in a ring are close together. So the newest batch has the largest distance from
    # any other batch, even if the numbers wrap around.
    ahead = _ahead(numbers[written], int(numbers[written[0]]))
    last = written[np.argmax(ahead)]
    return Place(int(numbers[last]), int(last)).ahead(1, len(ring))


class Reader:
    """Reader of one list; it returns entries in the order in which they were written."""

    def __init__(self, ring: NDArray[Any], place: Place | None = None) -> None:
        """Start at `place`, or at the oldest batch in the ring.

        `ring`: at least two batch() records, shape (batches,), since one record may be half
        written. Raises TestbedError.
        """
        if len(ring) < 2:
            raise TestbedError(f"a list of {len(ring)} batches: expected at least 2")
        self.lost = 0  # batches that the translator sent but that did not arrive
        self.overrun = 0  # batches that were overwritten before they were read
        self._ring = ring
        self.place = self._oldest() if place is None else place

    @property
    def waiting(self) -> int:
        """Number of unread batches up to the head of the list, including lost and overwritten
        batches.
        """
        return max(int(self._distances().max()) + 1, 0)

    def pull(self) -> NDArray[np.uint32]:
        """Return all new entries, oldest first, as an array of shape (n,); n may be 0."""
        size = len(self._ring)
        distances = self._distances()
        end = max(int(distances.max()) + 1, 0)  # number of batches up to the head
        start = max(end - size, 0)
        wanted = np.arange(start, end)
        wanted = wanted[distances[wanted % size] == wanted]
        batches = self._ring[(self.place.slot + wanted) % size]
        # The translator continued to write during the copy. It may now be overwriting the oldest
        # batch, so that slot is not safe to read.
        safe = int(self._distances().max()) + 2 - size
        batches = batches[wanted >= safe]
        start = min(max(start, safe), end)
        self.overrun += start
        self.lost += end - start - len(batches)
        self.place = self.place.ahead(end, size)
        return _entries(batches)

    def _distances(self) -> NDArray[np.int64]:
        """Return the distance in batches from the next batch to read to the batch in each slot.

        The result has shape (batches,) and starts at the next slot to read. The value is negative
        for batches that were already read or were written one lap earlier.
        """
        numbers = _numbers(self._ring)
        at = self.place.slot
        return _ahead(np.concatenate([numbers[at:], numbers[:at]]), self.place.number)

    def _oldest(self) -> Place:
        """Return the position of the oldest batch, except the one that the translator overwrites
        next.
        """
        size = len(self._ring)
        after = head(self._ring)
        older = after.ahead(1 - size, size)
        self.place = older
        distances = self._distances()
        there = np.flatnonzero(distances == np.arange(size))
        return older.ahead(int(there[0]), size) if len(there) else after


def _numbers(ring: NDArray[Any]) -> NDArray[np.int64]:
    return ring["tail"].astype(np.int64) & NUMBERS


def _ahead(numbers: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return the distance from `number` to each batch number; -1 for batches never written."""
    half = NUMBERS // 2
    ahead: NDArray[np.int64] = (numbers - number + half) % NUMBERS - half
    return np.where(numbers == 0, -1, ahead)


def _entries(batches: NDArray[Any]) -> NDArray[np.uint32]:
    counts = batches["tail"].astype(np.uint32) >> np.uint32(_COUNT_SHIFT)
    entries = batches["entries"]
    return entries[np.arange(entries.shape[1]) < counts[:, np.newaxis]].astype(np.uint32)
