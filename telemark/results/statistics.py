"""Small statistics for experiments: percentiles, distances of distributions, bounds by chance."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NORMAL_999 = 3.2905  # 99.9 % of a normal distribution lie within so many standard deviations
KOLMOGOROV_999 = 1.949  # Kolmogorov's distribution: 99.9 % lie below


def percentiles(values: NDArray[np.float64] | NDArray[np.int64]) -> dict[str, float]:
    """What describes a distribution with a tail; nothing where there are no values."""
    if not len(values):
        return {}
    names = {"min": 0, "p50": 50, "p99": 99, "p99.9": 99.9, "max": 100}
    return {name: float(np.percentile(values, percent)) for name, percent in names.items()}


def largest_distance(some: NDArray[np.float64], every: NDArray[np.float64]) -> float:
    """The largest distance between two empirical distributions (Kolmogorov and Smirnov).

    NaN where one of them has no values.
    """
    if not len(some) or not len(every):
        return math.nan
    places = np.sort(np.concatenate([some, every]))
    shares = [np.searchsorted(np.sort(x), places, side="right") / len(x) for x in (some, every)]
    return float(abs(shares[0] - shares[1]).max())


def expected_ks_distance(count: int) -> float:
    """Within which `count` independent samples are of their distribution, 999 times in 1000."""
    return KOLMOGOROV_999 / math.sqrt(max(count, 1))


def likely_mean_square(count: int) -> tuple[float, float]:
    """Between which the mean of `count` squares of standard normal values is, 999 times in 1000.

    Wilson and Hilferty's approximation of chi-square (1931).
    """
    low, high = (
        (1 - 2 / (9 * count) + z * math.sqrt(2 / (9 * count))) ** 3
        for z in (-NORMAL_999, NORMAL_999)
    )
    return max(low, 0), high


def rms(errors: Sequence[float]) -> float:
    """Root mean square of those that are known; NaN: none is."""
    known = [error for error in errors if not np.isnan(error)]
    return float(np.sqrt(np.mean(np.square(known)))) if known else float("nan")
