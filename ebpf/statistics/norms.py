"""Norms of the vector of packet counts per flow, by a count sketch.

Charikar, Chen, Farach-Colton 2002.

In each row, every flow has a counter and a sign. Each packet of the flow adds the sign to the
counter. The sum of the squares of a row is an unbiased estimate of F2, the squared Euclidean norm.
The variance of this estimate is 2 (F2^2 - F4) / columns (Alon, Matias, Szegedy 1996; Thorup and
Zhang, SODA 2004). L1 is the exact number of packets. TopK provides the maximum norm, which is the
packet count of the largest flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS, COLUMN_BITS = 5, 9  # sets.h
COLUMNS = 1 << COLUMN_BITS


@dataclass(frozen=True)
class Sketch:
    """Sums of the signs of packets; array of shape (ROWS, COLUMNS)."""

    counters: NDArray[np.int64]

    @classmethod
    def of(cls, records: NDArray[Any]) -> Sketch:
        """Merge the sketches of all CPUs.

        The argument is an array of `struct sketch`, one per CPU.
        """
        return cls(records["counters"].sum(axis=0).astype(np.int64))

    def __add__(self, other: Sketch) -> Sketch:
        return Sketch(self.counters + other.counters)

    @property
    def of_rows(self) -> NDArray[np.int64]:
        """Return one estimate of F2 per row; array of shape (ROWS,)."""
        squares: NDArray[np.int64] = (self.counters**2).sum(axis=1)
        return squares

    @property
    def f2(self) -> float:
        """Return the median of the estimates of F2 from all rows."""
        return float(np.median(self.of_rows))
