"""Exact statistics of all packets, with unlimited memory: the reference for the estimates.

Flows are numbers, one per packet; values are numbers, such as lengths.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def counts(flows: ArrayLike) -> NDArray[np.int64]:
    """Packets of each distinct flow, in the order of the flows' numbers."""
    return np.unique(np.asarray(flows), return_counts=True)[1].astype(np.int64)


def top(flows: ArrayLike, number: int) -> list[tuple[int, int]]:
    """The flows with the most packets, and how many; of equal ones the lesser number first."""
    each, packets = np.unique(np.asarray(flows), return_counts=True)
    order = np.lexsort((each, -packets))[:number]
    return list(zip(each[order].tolist(), packets[order].tolist(), strict=True))


def variance(values: Sequence[int]) -> float:
    """Of all values, by their distances from the mean."""
    return float(np.var(np.asarray(values, np.longdouble)))


def quantile(values: ArrayLike, part: float) -> int:
    """The least value that at least this part of all values does not exceed."""
    ordered = np.sort(np.asarray(values))
    return int(ordered[max(int(np.ceil(part * len(ordered))), 1) - 1])


def rarity(flows: ArrayLike, times: int) -> float:
    """The share of distinct flows that have exactly so many packets."""
    return float((counts(flows) == times).mean())


def similarity(flows: ArrayLike, others: ArrayLike) -> float:
    """Jaccard's: distinct flows in both, of those in one or both."""
    one, other = np.unique(np.asarray(flows)), np.unique(np.asarray(others))
    return len(np.intersect1d(one, other)) / len(np.union1d(one, other))


def moment(flows: ArrayLike, power: int) -> int:
    """F_power: the sum of that power of all flows' packets."""
    return sum(int(each) ** power for each in counts(flows))
