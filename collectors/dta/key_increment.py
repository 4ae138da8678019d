"""Key-Increment: counters per key in memory that switches add to, as a count-min sketch.

    region = Region(COUNTER, rows * slots, Path("counters"))
    counters = Counters(region.records, rows)
    counters.estimate(key_words([0x0A000001]), copies=2)

A translator adds to one counter in each of `copies` rows, by FETCH ADD: no increment is lost or
counted twice. Other keys that share a counter can only increase it, so no estimate is below the
actual count (Cormode and Muthukrishnan 2005). theory.py computes the error above it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import MAX_COPIES, Words, slots
from telemark.errors import TestbedError

COUNTER = np.dtype(np.uint64)  # in the collector's byte order, as atomic operations require


class Counters:
    """Rows of counters that a translator adds to."""

    def __init__(self, records: NDArray[Any], rows: int) -> None:
        """`records`: a Region of COUNTERs, row by row. Raises TestbedError."""
        if not 1 <= rows <= MAX_COPIES:
            raise TestbedError(f"{rows} rows: expected 1 to {MAX_COPIES}")
        self.slots, over = divmod(len(records), rows)
        if over or not self.slots or self.slots & (self.slots - 1):
            raise TestbedError(
                f"{len(records)} counters in {rows} rows: expected a power of two in each"
            )
        self._rows = records.reshape(rows, self.slots)

    def estimate(self, keys: Words, copies: int) -> NDArray[np.uint64]:
        """Return the minimum over the counters of each key (n, 4), which was added in `copies`
        rows.

        Raises TestbedError.
        """
        places = self._places(keys, copies)
        counted = np.take_along_axis(self._rows[:copies], places, axis=1)
        return counted.min(axis=0)

    def add(self, keys: Words, addends: NDArray[np.uint64], copies: int) -> None:
        """Add to the memory as a translator does: its model. Raises TestbedError."""
        for row, places in zip(self._rows, self._places(keys, copies), strict=False):
            np.add.at(row, places, addends)

    def _places(self, keys: Words, copies: int) -> NDArray[np.int64]:
        if not 1 <= copies <= len(self._rows):
            raise TestbedError(f"{copies} copies: expected 1 to {len(self._rows)}, one per row")
        return slots(keys, copies, self.slots)
