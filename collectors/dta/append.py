"""DTA Append: lists in memory, and readers that follow the writes of a translator.

    region = Region(batch(4), lists * batches, Path("lists"))
    rings = region.records.reshape(lists, batches)
    reader = Reader(rings[7])
    while ...:
        entries = reader.pull()

A list is a ring of batches. Each batch ends with a tail: the number of valid entries, and the batch
number. Batch numbers start at 1 and continue when the ring starts again. So from the memory alone,
a reader detects three kinds of batches: new batches, batches that were never written, and batches
that were overwritten before the reader had read them. Readers do not modify memory. So a list may
have several readers, and each of them can read all entries.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemark.errors import TestbedError

BATCHES = (1, 2, 4, 8, 16)
"""Allowed numbers of entries per batch, as in the published translator."""

NUMBERS = (1 << 27) - 1
"""Batch numbers run from 1 to NUMBERS, then start at 1 again. 0 means never written."""

_COUNT_SHIFT = 27  # the upper bits of a tail, from this bit on, are the number of valid entries


def batch(entries: int) -> np.dtype[Any]:
    """Return the memory layout of a batch of `entries` entries.

    Raises TestbedError if the number is not in BATCHES.
    """
    if entries not in BATCHES:
        raise TestbedError(f"batches of {entries} entries: expected one of {BATCHES}")
    return np.dtype([("entries", ">u4", (entries,)), ("tail", ">u4")])


def tail(count: int, number: int) -> int:
    """Return the tail of the batch `number`, which has `count` valid entries."""
    return count << _COUNT_SHIFT | number


class Place(NamedTuple):
    """Position of a batch: the number of the batch, and its slot in the ring.

    A translator can resume at such a position.
    """

    number: int
    slot: int

    def ahead(self, batches: int, ring: int) -> "Place":
        """Return the position `batches` after this one.

        `ring` is the number of batches in the ring.
        """
        return Place((self.number - 1 + batches) % NUMBERS + 1, (self.slot + batches) % ring)


FIRST = Place(1, 0)


def head(ring: NDArray[Any]) -> Place:
    """Return the position of the next batch.

    A restarted translator and new readers start there.
    """
    numbers = _numbers(ring)
    written = np.flatnonzero(numbers)
    if not len(written):
        return FIRST
    # The numbers of the batches in a ring are close together. So the newest batch has the largest
    # distance from any other batch, even if the numbers have wrapped around.
    ahead = _ahead(numbers[written], int(numbers[written[0]]))
    last = written[np.argmax(ahead)]
    return Place(int(numbers[last]), int(last)).ahead(1, len(ring))


class Reader:
    """Reader of one list. It returns entries in the order in which they were written."""

    def __init__(self, ring: NDArray[Any], place: Place | None = None) -> None:
        """Start at `place`, or at the oldest batch in the ring if there is no `place`.

        `ring` is an array of batch() records, shape (batches,). It has at least two records,
        because one record may be half written. Raises TestbedError.
        """
        if len(ring) < 2:
            raise TestbedError(f"a list of {len(ring)} batches: expected at least 2")
        self.lost = 0  # number of batches that the translator sent, but that did not arrive
        self.overrun = 0  # number of batches that were overwritten before this reader had read them
        self._ring = ring
        self.place = self._oldest() if place is None else place

    @property
    def waiting(self) -> int:
        """Number of unread batches up to the head of the list.

        The number includes batches that were lost or overwritten.
        """
        return max(int(self._distances().max()) + 1, 0)

    def pull(self) -> NDArray[np.uint32]:
        """Return all new entries as an array of shape (n,), oldest first; n may be 0."""
        size = len(self._ring)
        distances = self._distances()
        end = max(int(distances.max()) + 1, 0)  # number of batches from the next one to the head
        start = max(end - size, 0)
        wanted = np.arange(start, end)
        wanted = wanted[distances[wanted % size] == wanted]
        batches = self._ring[(self.place.slot + wanted) % size]
        # The translator continued to write during the copy. It may now be overwriting the oldest
        # batch, so the copy of this batch is not used.
        safe = int(self._distances().max()) + 2 - size
        batches = batches[wanted >= safe]
        start = min(max(start, safe), end)
        self.overrun += start
        self.lost += end - start - len(batches)
        self.place = self.place.ahead(end, size)
        return _entries(batches)

    def _distances(self) -> NDArray[np.int64]:
        """Return for each slot the distance of its batch from the next batch to read, in batches.

        The result has shape (batches,), and starts at the slot that is read next. A value is
        negative if the batch in the slot was already read, or was written one lap earlier.
        """
        numbers = _numbers(self._ring)
        at = self.place.slot
        return _ahead(np.concatenate([numbers[at:], numbers[:at]]), self.place.number)

    def _oldest(self) -> Place:
        """Return the position of the oldest batch that is safe from the translator's next write."""
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
    """Return the distance from `number` to each batch number.

    The distance is -1 for batches that were never written.
    """
    half = NUMBERS // 2
    ahead: NDArray[np.int64] = (numbers - number + half) % NUMBERS - half
    return np.where(numbers == 0, -1, ahead)


def _entries(batches: NDArray[Any]) -> NDArray[np.uint32]:
    counts = batches["tail"].astype(np.uint32) >> np.uint32(_COUNT_SHIFT)
    entries = batches["entries"]
    return entries[np.arange(entries.shape[1]) < counts[:, np.newaxis]].astype(np.uint32)
