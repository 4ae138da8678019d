"""DTA Key-Increment: a count-min sketch in memory. Switches add to its counters.

    region = Region(COUNTER, rows * slots, Path("counters"))
    counters = Counters(region.records, rows)
    counters.estimate(key_words([0x0A000001]), copies=2)

A translator adds to one counter in each of `copies` rows by RDMA FETCH ADD. So no increment is
lost, and none is counted twice. Other keys with the same counter can only increase the counter, so
an estimate is never below the actual count (Cormode and Muthukrishnan 2005). theory.py computes the
distribution of the overestimation.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import MAX_COPIES, Words, slots
from telemark.errors import TestbedError

# byte order of the collector's CPU, because RDMA atomic operations require it
COUNTER = np.dtype(np.uint64)


class Counters:
    """Count-min sketch: rows of counters to which a translator adds."""

    def __init__(self, records: NDArray[Any], rows: int) -> None:
        """`records` are the records of a Region of COUNTERs, row by row. Raises TestbedError."""
        if not 1 <= rows <= MAX_COPIES:
            raise TestbedError(f"{rows} rows: expected 1 to {MAX_COPIES}")
        self.slots, over = divmod(len(records), rows)
        if over or not self.slots or self.slots & (self.slots - 1):
            raise TestbedError(
                f"{len(records)} counters in {rows} rows: expected a power of two of counters per "
                "row"
            )
        self._rows = records.reshape(rows, self.slots)

    def estimate(self, keys: Words, copies: int) -> NDArray[np.uint64]:
        """Return the minimum of the counters of each key in the first `copies` rows.

        `keys` has shape (n, 4). Raises TestbedError.
        """
        places = self._places(keys, copies)
        counted = np.take_along_axis(self._rows[:copies], places, axis=1)
        return counted.min(axis=0)

    def add(self, keys: Words, addends: NDArray[np.uint64], copies: int) -> None:
        """Add to the counters in memory. This is a model of the translator. Raises TestbedError."""
        for row, places in zip(self._rows, self._places(keys, copies), strict=False):
            np.add.at(row, places, addends)

    def _places(self, keys: Words, copies: int) -> NDArray[np.int64]:
        if not 1 <= copies <= len(self._rows):
            raise TestbedError(f"{copies} copies: expected 1 to {len(self._rows)}, one per row")
        return slots(keys, copies, self.slots)
