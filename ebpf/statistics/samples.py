"""K-medians of packets' lengths: the kernel samples, user space clusters the sample.

A sample is uniform, without replacement: algorithm R (Vitter 1985) in each window and processor,
of which two merge by drawing how many come from each (hypergeometric). In one dimension k-medians
has an exact solution (Wang and Song, The R Journal 2011, by dynamic programming), so the error is
that of the sample alone. The distance to the nearest centre changes no faster than the length
itself; so by Kantorovich and Rubinstein the mean distances in sample and stream differ by at most
Wasserstein's W1 of the two, and the sample's best centres are worse than the stream's best ones by
at most 2 W1. W1 is that of a uniform sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SAMPLE = 512  # values.h


@dataclass(frozen=True)
class Sample:
    """A uniform sample, (at most SAMPLE,), of the lengths of `seen` packets in bytes."""

    seen: int
    lengths: NDArray[np.int64]
    rng: np.random.Generator = field(compare=False, repr=False)

    @classmethod
    def of(cls, records: NDArray[Any], rng: np.random.Generator) -> Sample:
        """Merge the samples of processors, (processors,) of struct sample."""
        each = [
            cls(int(one["seen"]), one["lengths"][: int(one["seen"])].astype(np.int64), rng)
            for one in records
        ]
        return sum(each[1:], start=each[0])

    def __add__(self, other: Sample) -> Sample:
        """Merge two samples; the number drawn from each is hypergeometric."""
        size = min(SAMPLE, self.seen + other.seen)
        own = int(self.rng.hypergeometric(self.seen, other.seen, size)) if size else 0
        drawn = [self.rng.choice(self.lengths, own, replace=False),
                 self.rng.choice(other.lengths, size - own, replace=False)]  # fmt: skip
        return Sample(self.seen + other.seen, np.concatenate(drawn), self.rng)


def medians(values: ArrayLike, clusters: int) -> NDArray[np.int64]:
    """Return the ascending centres that minimise the sum of the values' distances to them.

    Fewer than `clusters` if there are fewer distinct values. Time and memory grow with the square
    of the number of distinct values.
    """
    points, weights = np.unique(np.asarray(values, np.int64), return_counts=True)
    clusters = min(clusters, len(points))
    costs, middles = _segments(points, weights)
    best = costs[0]  # by the last point: with one cluster
    splits = []
    for _ in range(clusters - 1):
        sums = np.concatenate([[np.inf], best[:-1]])[:, None] + costs
        splits.append(sums.argmin(axis=0))
        best = sums.min(axis=0)
    centres, last = [], len(points) - 1
    for starts in reversed(splits):
        first = int(starts[last])
        centres.append(points[middles[first, last]])
        last = first - 1
    centres.append(points[middles[0, last]])
    return np.array(centres[::-1], np.int64)


def _segments(
    points: NDArray[np.int64], weights: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return, for points i to j, the sum of distances to their median, and its index."""
    number = len(points)
    heavy = np.concatenate([[0], np.cumsum(weights)])
    sums = np.concatenate([[0], np.cumsum(weights * points)])
    first, last = np.indices((number, number))
    middles = np.searchsorted(heavy[1:], (heavy[first] + heavy[last + 1] + 1) // 2)
    middles = np.clip(middles, first, np.maximum(first, last))
    centres = points[middles]
    below = centres * (heavy[middles] - heavy[first]) - (sums[middles] - sums[first])
    above = sums[last + 1] - sums[middles] - centres * (heavy[last + 1] - heavy[middles])
    return np.where(first <= last, (below + above).astype(np.float64), np.inf), middles


def mean_distance(values: ArrayLike, centres: ArrayLike) -> float:
    """Return the mean distance of values to the nearest centre."""
    points, weights = np.unique(np.asarray(values, np.int64), return_counts=True)
    distances = np.abs(points[:, None] - np.asarray(centres)).min(axis=1)
    return float((distances * weights).sum() / weights.sum())


def wasserstein(values: ArrayLike, others: ArrayLike) -> float:
    """Return Wasserstein's W1: the area between the distribution functions of two sets."""
    one, other = np.sort(np.asarray(values)), np.sort(np.asarray(others))
    points = np.unique(np.concatenate([one, other]))
    shares = [np.searchsorted(each, points[:-1], "right") / len(each) for each in (one, other)]
    return float(np.abs(shares[0] - shares[1]) @ np.diff(points))
