"""Rarity and similarity of flows: min-wise hashing with one permutation.

A part of the hash selects a flow's bucket; each bucket keeps the flow with the smallest hash, and
its packet count. These flows are a uniform sample of all distinct flows without replacement. So
among b nonempty buckets, the number of flows with exactly alpha packets has a hypergeometric
distribution, and its share is an unbiased estimate of the alpha-rarity (Datar and Muthukrishnan,
ESA 2002, with one permutation per bucket). Likewise, the share of buckets with the same flow in two
windows or on two links estimates Jaccard's similarity (Broder 1997; Li, Owen and Zhang, NIPS 2012,
for one permutation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.statistics.hashes import Words

BUCKET_BITS = 10  # sets.h
BUCKETS = 1 << BUCKET_BITS


@dataclass(frozen=True)
class Minima:
    """The least hash of each bucket, and its flow's packets: (BUCKETS,); of 0 packets: none."""

    hashes: Words
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, records: NDArray[Any]) -> Minima:
        """Of what processors found, (processors,) of struct minima."""
        each = [
            cls(one["buckets"]["hash"].copy(), one["buckets"]["count"].astype(np.int64))
            for one in records
        ]
        return sum(each[1:], start=each[0])

    def __add__(self, other: Minima) -> Minima:
        """Of both: where the flow is the same, its packets add up."""
        none, no_other = self.counts == 0, other.counts == 0
        same = ~none & ~no_other & (self.hashes == other.hashes)
        theirs = none | (~no_other & (other.hashes < self.hashes))
        counts = np.where(theirs, other.counts, self.counts)
        counts[same] = (self.counts + other.counts)[same]
        return Minima(np.where(theirs, other.hashes, self.hashes), counts)

    @property
    def used(self) -> int:
        """Buckets that are not empty: the size of the sample."""
        return int((self.counts > 0).sum())

    def seen(self, times: int) -> int:
        """Flows of the sample that had so many packets."""
        return int((self.counts == times).sum()) if times else 0

    def rarity(self, times: int) -> float:
        """The share of distinct flows that had exactly so many packets. Of none it is 0."""
        return self.seen(times) / max(self.used, 1)

    def common(self, other: Minima) -> int:
        """Buckets in which the least flow of both together is in both."""
        both = (self.counts > 0) & (other.counts > 0)
        return int((both & (self.hashes == other.hashes)).sum())

    def similarity(self, other: Minima) -> float:
        """Of the sets of flows: how many are in both, of those in one or both. Of none it is 0."""
        return self.common(other) / max((self + other).used, 1)
