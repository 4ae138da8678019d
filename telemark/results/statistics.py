"""Statistics for experiments: percentiles, Kolmogorov-Smirnov distance, and confidence bounds."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# 99.9 % of normally distributed values are within this many standard deviations
NORMAL_999 = 3.2905
KOLMOGOROV_999 = 1.949  # 99.9 % of Kolmogorov's distribution lie below this value


def percentiles(values: NDArray[np.float64] | NDArray[np.int64]) -> dict[str, float]:
    """Return the minimum, the percentiles and the maximum of values; {} if there are no values."""
    if not len(values):
        return {}
    names = {"min": 0, "p50": 50, "p99": 99, "p99.9": 99.9, "max": 100}
    return {name: float(np.percentile(values, percent)) for name, percent in names.items()}


def ks_distance(some: NDArray[np.float64], every: NDArray[np.float64]) -> float:
    """Return the Kolmogorov-Smirnov distance between two samples; NaN if one of them is empty."""
    if not len(some) or not len(every):
        return math.nan
    places = np.sort(np.concatenate([some, every]))
    shares = [np.searchsorted(np.sort(x), places, side="right") / len(x) for x in (some, every)]
    return float(abs(shares[0] - shares[1]).max())


def expected_ks_distance(count: int) -> float:
    """Return the limit that a Kolmogorov-Smirnov distance exceeds with probability 0.1 %.

    `count` is the number of values in the sample.
    """
    return KOLMOGOROV_999 / math.sqrt(max(count, 1))


def mean_square_bounds(count: int) -> tuple[float, float]:
    """Return the 99.9 % interval of the mean of squared standard normal values.

    `count` is the number of values. The mean is in the interval with probability 99.9 %.

    The interval uses the approximation of chi-square by Wilson and Hilferty (1931).
    """
    low, high = (
        (1 - 2 / (9 * count) + z * math.sqrt(2 / (9 * count))) ** 3
        for z in (-NORMAL_999, NORMAL_999)
    )
    return max(low, 0), high


def rms(errors: Sequence[float]) -> float:
    """Return the root mean square of all values except NaN; NaN if there are no other values."""
    known = [error for error in errors if not np.isnan(error)]
    return float(np.sqrt(np.mean(np.square(known)))) if known else float("nan")
