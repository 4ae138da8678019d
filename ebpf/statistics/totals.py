"""Sum and variance of packet lengths: exact, from three sums.

Each processor adds up n, the lengths x and their squares, and so do windows: the variance of what
they hold together is that of all its packets, E[x^2] - E[x]^2, in whole numbers until the last
division. (Babcock et al., PODS 2003, keep variance over a sliding window of the last n items in
less memory, with an error; here a window is made of whole basic windows, and has none.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Totals:
    """Of packets' lengths in bytes; squares are the sum of their squares."""

    packets: int
    bytes: int
    squares: int
    ignored: int  # frames without an IP header, or with part of one
    uncounted: int  # packets of flows for which exact counters had no place

    @classmethod
    def of(cls, records: NDArray[Any]) -> Totals:
        """Of what processors counted, (processors,) of struct totals."""
        return cls(*(int(records[name].sum()) for name in cls.__dataclass_fields__))

    def __add__(self, other: Totals) -> Totals:
        own, others = vars(self), vars(other)
        return Totals(**{name: own[name] + others[name] for name in own})

    @property
    def mean(self) -> Fraction:
        """Raises ZeroDivisionError where there were no packets."""
        return Fraction(self.bytes, self.packets)

    @property
    def variance(self) -> Fraction:
        """That of the packets (not an estimate of some larger set's)."""
        return Fraction(self.squares, self.packets) - self.mean**2
