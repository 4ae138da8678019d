"""Norms of the vector of packets per flow: a count sketch (Charikar, Chen, Farach-Colton 2002).

In each row every flow has a counter and a sign with which its packets are added. The sum of a row's
squares is an unbiased estimate of F2, the squared Euclidean norm, with the variance
2 (F2^2 - F4) / columns (Alon, Matias, Szegedy 1996; Thorup and Zhang, SODA 2004). L1 is the number
of packets, exactly; the greatest norm, of one flow, is TopK's.
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
    """Sums of signed packets, (ROWS, COLUMNS)."""

    counters: NDArray[np.int64]

    @classmethod
    def of(cls, records: NDArray[Any]) -> Sketch:
        """Merge the sketches of processors, (processors,) of struct sketch."""
        return cls(records["counters"].sum(axis=0).astype(np.int64))

    def __add__(self, other: Sketch) -> Sketch:
        return Sketch(self.counters + other.counters)

    @property
    def of_rows(self) -> NDArray[np.int64]:
        """Estimate of F2 by each row, (ROWS,)."""
        squares: NDArray[np.int64] = (self.counters**2).sum(axis=1)
        return squares

    @property
    def f2(self) -> float:
        """Median of the rows' estimates of F2."""
        return float(np.median(self.of_rows))
