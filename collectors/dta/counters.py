"""Key-Increment: counters of keys, in memory that switches add to: a count-min sketch.

    region = Region(COUNTER, rows * slots, Path("counters"))
    counters = Counters(region.records, rows)
    counters.estimate(key_words([0x0A000001]), copies=2)

A translator adds to one counter in each of `copies` rows, by FETCH ADD: nothing is lost or counted
twice, and other keys that share a counter only make it larger. So no estimate is below the truth
(Cormode and Muthukrishnan 2005), and theory.py says how far above it they are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import MAX_COPIES, Words, slots
from telemark.errors import TestbedError

COUNTER = np.dtype(np.uint64)  # of the collector's byte order, as atomic operations have it


class Counters:
    """Rows of counters that a translator adds to."""

    def __init__(self, records: NDArray[Any], rows: int) -> None:
        """`records`: those of a Region of COUNTERs, row after row. Raises TestbedError."""
        if not 1 <= rows <= MAX_COPIES:
            raise TestbedError(f"{rows} rows: expected 1 to {MAX_COPIES}")
        self.slots, over = divmod(len(records), rows)
        if over or not self.slots or self.slots & (self.slots - 1):
            raise TestbedError(
                f"{len(records)} counters in {rows} rows: expected a power of two in each"
            )
        self._rows = records.reshape(rows, self.slots)

    def estimate(self, keys: Words, copies: int) -> NDArray[np.uint64]:
        """The least of its counters, of each key (n, 4) that was added to in `copies` rows.

        Raises TestbedError.
        """
        places = self._places(keys, copies)
        counted = np.take_along_axis(self._rows[:copies], places, axis=1)
        return counted.min(axis=0)

    def add(self, keys: Words, addends: NDArray[np.uint64], copies: int) -> None:
        """What a translator does to the memory: the model of it. Raises TestbedError."""
        for row, places in zip(self._rows, self._places(keys, copies), strict=False):
            np.add.at(row, places, addends)

    def _places(self, keys: Words, copies: int) -> NDArray[np.int64]:
        if not 1 <= copies <= len(self._rows):
            raise TestbedError(f"{copies} copies: there are {len(self._rows)} rows")
        return slots(keys, copies, self.slots)
