"""Number of distinct flows, estimated by HyperLogLog.

Flajolet, Fusy, Gandouet, Meunier, AofA 2007.

With m registers, the standard error is 1.04 / sqrt(m). The estimator is Ertl's ("New cardinality
estimation algorithms for HyperLogLog sketches", 2017, section 4). The original estimator counts
empty registers if there are few flows, and uses the harmonic mean if there are many. The estimator
is biased where it changes from one method to the other. Ertl's estimator is not. The distribution
of a register is known exactly: after n distinct flows, the register is at most k with probability
(1 - 2^-k / m)^n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PRECISION = 12  # sets.h
REGISTERS = 1 << PRECISION
RANKS = 64 - PRECISION  # RANKS + 1 means that no bit in the rest of the hash is set
STANDARD_ERROR = 1.04 / math.sqrt(REGISTERS)
_LIMIT = 1 / (2 * math.log(2))  # Ertl's alpha for many registers


@dataclass(frozen=True)
class Registers:
    """Largest rank of the hashes in each register, shape (REGISTERS,); 0 means no flow."""

    ranks: NDArray[np.uint8]

    @classmethod
    def of(cls, records: NDArray[Any]) -> Registers:
        """Merge the registers of all CPUs.

        The argument is an array of `struct registers`, one per CPU.
        """
        return cls(records["ranks"].max(axis=0))

    def __add__(self, other: Registers) -> Registers:
        return Registers(np.maximum(self.ranks, other.ranks))

    @property
    def estimate(self) -> float:
        """Return the estimated number of distinct flows."""
        counts = np.bincount(self.ranks, minlength=RANKS + 2) / REGISTERS
        whole = 0.0  # below 2^60 flows, Ertl's term for registers at their limit is negligible
        for count in counts[RANKS:0:-1]:
            whole = (whole + count) / 2
        whole += _sigma(counts[0])
        return _LIMIT * REGISTERS / whole if whole else math.inf


def at_most(rank: int, flows: int) -> float:
    """Return the probability that a register is at most `rank` after `flows` distinct flows."""
    least = 0 if rank > RANKS else 2.0**-rank
    return (1 - least / REGISTERS) ** flows


def _sigma(empty: float) -> float:
    """Return Ertl's correction for empty registers: the sum over k of empty^(2^k) 2^(k - 1)."""
    if empty == 1:
        return math.inf
    total, power, weight = empty, empty, 1.0
    while True:
        power *= power
        before, total = total, total + power * weight
        weight *= 2
        if total == before:
            return total
