"""Exact sum and exact variance of packet lengths, from three sums.

Each CPU counts packets. It adds up their lengths x, and the squares of the lengths. The sums of
several windows can be added. The variance is E[x^2] - E[x]^2; it is computed with integers until
the last division. Babcock et al., PODS 2003, approximate the variance of the last n items with less
memory. In this module, a window consists of complete basic windows, so the variance is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Totals:
    """Number of packets, sum of their lengths in bytes, and sum of the squared lengths."""

    packets: int
    bytes: int
    squares: int
    ignored: int  # number of frames without a complete IP header
    uncounted: int  # number of packets of flows for which the exact counters had no room

    @classmethod
    def of(cls, records: NDArray[Any]) -> Totals:
        """Merge the totals of all CPUs.

        The argument is an array of `struct totals`, one per CPU.
        """
        return cls(*(int(records[name].sum()) for name in cls.__dataclass_fields__))

    def __add__(self, other: Totals) -> Totals:
        own, others = vars(self), vars(other)
        return Totals(**{name: own[name] + others[name] for name in own})

    @property
    def mean(self) -> Fraction:
        """Return the mean length. Raises ZeroDivisionError if there were no packets."""
        return Fraction(self.bytes, self.packets)

    @property
    def variance(self) -> Fraction:
        """Return the variance of the lengths (the sum of squared deviations divided by n).

        The result is not an estimate (divided by n - 1) for a larger population.
        """
        return Fraction(self.squares, self.packets) - self.mean**2
