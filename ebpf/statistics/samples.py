"""K-medians of packet lengths. The kernel takes a sample, and user space clusters this sample.

In each window, each CPU takes a uniform sample without replacement (algorithm R, Vitter 1985). To
merge two samples, a hypergeometric random number determines how many elements are drawn from each.
In one dimension, dynamic programming solves k-medians exactly (Wang and Song, The R Journal 2011).
So the only error is that of the sample. If a length changes, its distance to the nearest centre
changes by at most the same amount. Let W1 be the Wasserstein distance between the sample and the
stream. By Kantorovich and Rubinstein, the mean distances in the sample and in the stream differ by
at most W1. Let d be the mean distance in the stream. With the best centres of the sample, d is at
most 2 W1 larger than with the best centres of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SAMPLE = 512  # values.h


@dataclass(frozen=True)
class Sample:
    """Uniform sample of at most SAMPLE lengths, in bytes. The sample is from `seen` packets."""

    seen: int
    lengths: NDArray[np.int64]
    rng: np.random.Generator = field(compare=False, repr=False)

    @classmethod
    def of(cls, records: NDArray[Any], rng: np.random.Generator) -> Sample:
        """Merge the samples of all CPUs.

        The argument is an array of `struct sample`, one per CPU.
        """
        each = [
            cls(int(one["seen"]), one["lengths"][: int(one["seen"])].astype(np.int64), rng)
            for one in records
        ]
        return sum(each[1:], start=each[0])

    def __add__(self, other: Sample) -> Sample:
        """Merge two samples. The number of elements that are drawn from each is hypergeometric."""
        size = min(SAMPLE, self.seen + other.seen)
        own = int(self.rng.hypergeometric(self.seen, other.seen, size)) if size else 0
        drawn = [self.rng.choice(self.lengths, own, replace=False),
                 self.rng.choice(other.lengths, size - own, replace=False)]  # fmt: skip
        return Sample(self.seen + other.seen, np.concatenate(drawn), self.rng)


def medians(values: ArrayLike, clusters: int) -> NDArray[np.int64]:
    """Return the centres, in ascending order, with the smallest sum of distances to the values.

    If there are fewer than `clusters` distinct values, there are also fewer centres. Time and
    memory grow with the square of the number of distinct values.
    """
    points, weights = np.unique(np.asarray(values, np.int64), return_counts=True)
    clusters = min(clusters, len(points))
    costs, middles = _segments(points, weights)
    best = costs[0]  # for each last point: the cost of all points up to it, with one cluster
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
    """Return for points i to j: their sum of distances to their median, and the median's index."""
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
    """Return Wasserstein's W1, which is the area between two distribution functions."""
    one, other = np.sort(np.asarray(values)), np.sort(np.asarray(others))
    points = np.unique(np.concatenate([one, other]))
    shares = [np.searchsorted(each, points[:-1], "right") / len(each) for each in (one, other)]
    return float(np.abs(shares[0] - shares[1]) @ np.diff(points))
