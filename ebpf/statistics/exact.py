"""Exact statistics of all packets, with unlimited memory. They are the reference for estimates.

Each packet has a number for its flow. Values are numbers, e.g. lengths.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def counts(flows: ArrayLike) -> NDArray[np.int64]:
    """Return the packet count of each distinct flow, in the order of flow numbers."""
    return np.unique(np.asarray(flows), return_counts=True)[1].astype(np.int64)


def top(flows: ArrayLike, number: int) -> list[tuple[int, int]]:
    """Return the flows with the most packets, and their packet counts.

    Flows with equal counts are ordered by number.
    """
    each, packets = np.unique(np.asarray(flows), return_counts=True)
    order = np.lexsort((each, -packets))[:number]
    return list(zip(each[order].tolist(), packets[order].tolist(), strict=True))


def variance(values: Sequence[int]) -> float:
    """Return the variance of all values."""
    return float(np.var(np.asarray(values, np.longdouble)))


def quantile(values: ArrayLike, part: float) -> int:
    """Return the smallest v for which at least a fraction `part` of the values is at most v."""
    ordered = np.sort(np.asarray(values))
    return int(ordered[max(int(np.ceil(part * len(ordered))), 1) - 1])


def rarity(flows: ArrayLike, times: int) -> float:
    """Return the fraction of distinct flows that have exactly `times` packets."""
    return float((counts(flows) == times).mean())


def similarity(flows: ArrayLike, others: ArrayLike) -> float:
    """Return Jaccard's similarity of two sets of flows."""
    one, other = np.unique(np.asarray(flows)), np.unique(np.asarray(others))
    return len(np.intersect1d(one, other)) / len(np.union1d(one, other))


def moment(flows: ArrayLike, power: int) -> int:
    """Return the frequency moment F_power: the sum over flows of the packet count to this power."""
    return sum(int(each) ** power for each in counts(flows))
