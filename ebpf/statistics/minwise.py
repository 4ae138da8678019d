"""Rarity and similarity of flows, by min-wise hashing with one permutation.

Some bits of the hash of a flow select its bucket. Each bucket stores the flow with the smallest
hash, and the packet count of this flow. The stored flows are a uniform sample of all distinct
flows, without replacement. Let b be the number of buckets that are not empty. The number of stored
flows with exactly alpha packets has a hypergeometric distribution. This number divided by b is an
unbiased estimate of the alpha-rarity (Datar and Muthukrishnan, ESA 2002, with one permutation per
bucket). For two windows or two links, the fraction of buckets with the same flow estimates
Jaccard's similarity (Broder 1997; Li, Owen and Zhang, NIPS 2012, for one permutation).
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
    """Smallest hash in each bucket, and packet count of its flow; arrays of shape (BUCKETS,).

    If the number of packets is 0, the bucket is empty.
    """

    hashes: Words
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, records: NDArray[Any]) -> Minima:
        """Merge the minima of all CPUs.

        The argument is an array of `struct minima`, one per CPU.
        """
        each = [
            cls(one["buckets"]["hash"].copy(), one["buckets"]["count"].astype(np.int64))
            for one in records
        ]
        return sum(each[1:], start=each[0])

    def __add__(self, other: Minima) -> Minima:
        """Merge two results. The packet counts of a flow in both results are added."""
        none, no_other = self.counts == 0, other.counts == 0
        same = ~none & ~no_other & (self.hashes == other.hashes)
        theirs = none | (~no_other & (other.hashes < self.hashes))
        counts = np.where(theirs, other.counts, self.counts)
        counts[same] = (self.counts + other.counts)[same]
        return Minima(np.where(theirs, other.hashes, self.hashes), counts)

    @property
    def used(self) -> int:
        """Return the number of buckets that are not empty. It is the size of the sample."""
        return int((self.counts > 0).sum())

    def seen(self, times: int) -> int:
        """Return how many flows in the sample have exactly `times` packets."""
        return int((self.counts == times).sum()) if times else 0

    def rarity(self, times: int) -> float:
        """Return the fraction of distinct flows with exactly `times` packets.

        The result is 0 if there are no flows.
        """
        return self.seen(times) / max(self.used, 1)

    def common(self, other: Minima) -> int:
        """Return how many buckets contain the same flow in both results."""
        both = (self.counts > 0) & (other.counts > 0)
        return int((both & (self.hashes == other.hashes)).sum())

    def similarity(self, other: Minima) -> float:
        """Return Jaccard's similarity of the two sets of flows; 0 if both are empty."""
        return self.common(other) / max((self + other).used, 1)
