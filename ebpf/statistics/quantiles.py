"""Quantiles of packet lengths from a log-linear histogram, as in HdrHistogram and DDSketch.

The relative width of a class is at most 2^-LINEAR. The estimate of a quantile is the middle of its
class, so its relative error is at most 2^-(LINEAR + 1). DDSketch (Masson, Rim and Lee, VLDB 2019)
guarantees the same, but its logarithmic classes require the computation of a logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LINEAR, LENGTH_BITS = 5, 20  # values.h
CLASSES = (LENGTH_BITS - LINEAR + 1) << LINEAR
RELATIVE_ERROR = 2.0 ** -(LINEAR + 1)


def _bounds() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and the largest value of each class."""
    numbers = np.arange(CLASSES)
    powers = np.maximum((numbers >> LINEAR) - 1, 0)
    least = (numbers - (powers << LINEAR)) << powers
    return least, least + (1 << powers) - 1


LEAST, GREATEST = _bounds()


@dataclass(frozen=True)
class Histogram:
    """Number of packets in each class of lengths; array of shape (CLASSES,)."""

    counts: NDArray[np.int64]

    @classmethod
    def of(cls, records: NDArray[Any]) -> Histogram:
        """Merge the histograms of all CPUs.

        The argument is an array of `struct histogram`, one per CPU.
        """
        return cls(records["counts"].sum(axis=0).astype(np.int64))

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram(self.counts + other.counts)

    def quantile(self, part: float) -> float:
        """Return the estimated length that a fraction `part` of all packets does not exceed.

        Raises ValueError if there were no packets.
        """
        total = int(self.counts.sum())
        if not total:
            raise ValueError("no packets, so there are no quantiles")
        rank = max(int(np.ceil(part * total)), 1)
        place = int(np.searchsorted(np.cumsum(self.counts), rank))
        return float(LEAST[place] + GREATEST[place]) / 2
