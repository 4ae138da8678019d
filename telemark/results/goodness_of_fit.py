"""Goodness of fit: one test whether all points of a figure agree with theory.

If each of 60 points is tested separately with 99 % confidence, at least one point fails in about
every second run, even if theory is right. Therefore, one p-value is computed per point, and the
smallest p-value is multiplied by the number of points (Bonferroni). The product must be above 1 %.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from telemark.results.report import Check

LEVEL = 0.01
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def binomial_p_value(count: int, trials: int, chance: float) -> float:
    """Return the exact two-sided p-value of a binomial count: twice the smaller tail."""
    if chance <= 0 or chance >= 1:
        return float(count == trials * chance)
    spread = 40 * math.sqrt(trials * chance * (1 - chance)) + 40
    mean = trials * chance
    numbers = np.arange(max(0, int(mean - spread)), min(trials, int(mean + spread)) + 1)
    # Ratio of successive probabilities: (trials - k) / (k + 1) * chance / (1 - chance).
    ratios = (trials - numbers[:-1]) / numbers[1:] * (chance / (1 - chance))
    logarithms = np.concatenate([[0], np.cumsum(np.log(ratios))])
    weights = np.exp(logarithms - logarithms.max())
    tails = weights[numbers <= count].sum(), weights[numbers >= count].sum()
    return float(min(1, 2 * min(tails) / weights.sum()))


def t_test_p_value(values: ArrayLike, expected: float) -> float:
    """Return the p-value of the mean of independent runs, by Student's t test.

    If all values are equal to each other, the p-value is 1 if they equal the expected value, else
    0.
    """
    found = np.asarray(values, np.float64)
    freedom = len(found) - 1
    distance, error = abs(found.mean() - expected), found.std(ddof=1) / math.sqrt(len(found))
    if error == 0:
        return float(distance == 0)
    # Student's distribution with x = sqrt(freedom) tan(angle): the density is proportional to
    # cos^(freedom - 1).
    first = math.atan(distance / error / math.sqrt(freedom))

    def whole(start: float) -> float:
        angles = start + (_NODES + 1) / 2 * (math.pi / 2 - start)
        return float(np.cos(angles) ** (freedom - 1) @ _WEIGHTS) * (math.pi / 2 - start)

    return whole(first) / whole(0)


def agreement_check(what: str, chances: Sequence[float], level: float = LEVEL) -> Check:
    """Return the check of all points: the smallest p-value, times the number of points.

    If theory is right, it fails with a probability of at most `level`. Without points, it fails.
    """
    together = min(1.0, min(chances) * len(chances)) if chances else math.nan
    name = f"{what}: p-value of {len(chances)} points under theory"
    return Check(name, together, 1, 1 - level)
