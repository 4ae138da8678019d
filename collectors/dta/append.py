"""Append: lists in memory, and readers that follow the translator that writes them.

    region = Region(batch(4), lists * batches, Path("lists"))
    rings = region.records.reshape(lists, batches)
    reader = Reader(rings[7])
    while ...:
        entries = reader.pull()

A list is a ring of batches. Behind the entries of each is its tail: how many of them there are, and
the batch's number. Numbers count from 1 and go on over laps, so memory alone tells what is new,
what was never written, and what was overwritten before it was read. A reader changes nothing in
memory: each of several gets all of a list.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemark.errors import TestbedError

BATCHES = (1, 2, 4, 8, 16)
"""Entries that a batch may have, as in the published translator."""

NUMBERS = (1 << 27) - 1
"""Batch numbers: 1 to NUMBERS, then 1 again. 0 was never written."""

_COUNT_SHIFT = 27  # of a tail: above it is how many entries are valid


def batch(entries: int) -> np.dtype[Any]:
    """What lies in memory of a batch of `entries`. Raises TestbedError for what is none."""
    if entries not in BATCHES:
        raise TestbedError(f"batches of {entries} entries: expected one of {BATCHES}")
    return np.dtype([("entries", ">u4", (entries,)), ("tail", ">u4")])


def tail(count: int, number: int) -> int:
    """The tail of batch `number`, of which `count` entries are valid."""
    return count << _COUNT_SHIFT | number


class Place(NamedTuple):
    """Of a batch: its number, and where in the ring it lies. A translator goes on at one."""

    number: int
    slot: int

    def ahead(self, batches: int, ring: int) -> "Place":
        """The place so many batches later, in a ring of `ring` batches."""
        return Place((self.number - 1 + batches) % NUMBERS + 1, (self.slot + batches) % ring)


FIRST = Place(1, 0)


def head(ring: NDArray[Any]) -> Place:
    """Where the next batch will be: for a translator that was restarted, and for new readers."""
    numbers = _numbers(ring)
    written = np.flatnonzero(numbers)
    if not len(written):
        return FIRST
    # Numbers of one ring lie close together: as seen from any of them, the last is the farthest.
    ahead = _ahead(numbers[written], int(numbers[written[0]]))
    last = written[np.argmax(ahead)]
    return Place(int(numbers[last]), int(last)).ahead(1, len(ring))


class Reader:
    """Reads one list, in the order in which it was written."""

    def __init__(self, ring: NDArray[Any], place: Place | None = None) -> None:
        """`ring`: batch() records, (batches,). From `place` on, or from the oldest batch there.

        One batch of the ring may be half written: so it has two at least. Raises TestbedError.
        """
        if len(ring) < 2:
            raise TestbedError(f"a list of {len(ring)} batches: expected 2 at least")
        self.lost = 0  # batches that the translator wrote and that never came
        self.overrun = 0  # batches that were overwritten before they were read
        self._ring = ring
        self.place = self._oldest() if place is None else place

    @property
    def waiting(self) -> int:
        """Batches from here to the head of the list, lost and overwritten ones too."""
        return max(int(self._distances().max()) + 1, 0)

    def pull(self) -> NDArray[np.uint32]:
        """All entries that are new, oldest first: (n,), which may be none."""
        size = len(self._ring)
        distances = self._distances()
        end = max(int(distances.max()) + 1, 0)  # so many batches from here is the head
        start = max(end - size, 0)
        wanted = np.arange(start, end)
        wanted = wanted[distances[wanted % size] == wanted]
        batches = self._ring[(self.place.slot + wanted) % size]
        # While they were copied, the translator went on. The batch that it writes now may be half
        # there, and takes the place of one a lap before.
        safe = int(self._distances().max()) + 2 - size
        batches = batches[wanted >= safe]
        start = min(max(start, safe), end)
        self.overrun += start
        self.lost += end - start - len(batches)
        self.place = self.place.ahead(end, size)
        return _entries(batches)

    def _distances(self) -> NDArray[np.int64]:
        """How far behind the place to read next each batch lies, from that place on; (batches,).

        Negative are those that were read, or written a lap ago.
        """
        numbers = _numbers(self._ring)
        at = self.place.slot
        return _ahead(np.concatenate([numbers[at:], numbers[:at]]), self.place.number)

    def _oldest(self) -> Place:
        """The oldest batch that no batch may be about to take the place of."""
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
    """How far numbers are ahead of one, or behind it: -1 of those that were never written."""
    half = NUMBERS // 2
    ahead: NDArray[np.int64] = (numbers - number + half) % NUMBERS - half
    return np.where(numbers == 0, -1, ahead)


def _entries(batches: NDArray[Any]) -> NDArray[np.uint32]:
    counts = batches["tail"].astype(np.uint32) >> np.uint32(_COUNT_SHIFT)
    entries = batches["entries"]
    return entries[np.arange(entries.shape[1]) < counts[:, np.newaxis]].astype(np.uint32)
