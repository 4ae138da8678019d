"""Whether a figure's points agree with theory: one test of all of them, not one of each.

Of sixty points that agree, each tested at 99 %, one fails in every other run. So each point has the
chance with which theory alone is as far from what was measured; the least of them, times how many
there are (Bonferroni), is that of the whole figure, and must be above 1 %.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from telemark.results.report import Check

LEVEL = 0.01
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def count_chance(count: int, trials: int, chance: float) -> float:
    """How likely a count is so far out, of independent trials: twice its smaller tail, exactly."""
    if chance <= 0 or chance >= 1:
        return float(count == trials * chance)
    spread = 40 * math.sqrt(trials * chance * (1 - chance)) + 40
    mean = trials * chance
    numbers = np.arange(max(0, int(mean - spread)), min(trials, int(mean + spread)) + 1)
    # From each number to the next: (trials - k) / (k + 1) * chance / (1 - chance).
    ratios = (trials - numbers[:-1]) / numbers[1:] * (chance / (1 - chance))
    logarithms = np.concatenate([[0], np.cumsum(np.log(ratios))])
    weights = np.exp(logarithms - logarithms.max())
    tails = weights[numbers <= count].sum(), weights[numbers >= count].sum()
    return float(min(1, 2 * min(tails) / weights.sum()))


def mean_chance(values: ArrayLike, expected: float) -> float:
    """How likely a mean of independent runs is so far from the expected one (Student's t test).

    Where all runs agree it is whether they agree with what is expected.
    """
    found = np.asarray(values, np.float64)
    freedom = len(found) - 1
    distance, error = abs(found.mean() - expected), found.std(ddof=1) / math.sqrt(len(found))
    if error == 0:
        return float(distance == 0)
    # Student's distribution in x = sqrt(freedom) tan(angle): cos^(freedom - 1), up to a factor.
    first = math.atan(distance / error / math.sqrt(freedom))

    def whole(start: float) -> float:
        angles = start + (_NODES + 1) / 2 * (math.pi / 2 - start)
        return float(np.cos(angles) ** (freedom - 1) @ _WEIGHTS) * (math.pi / 2 - start)

    return whole(first) / whole(0)


def agreement(what: str, chances: Sequence[float]) -> Check:
    """Return the check of a figure: the corrected p-value of its worst point under theory."""
    together = min(1.0, min(chances) * len(chances))
    name = f"{what}: p-value of {len(chances)} points under theory"
    return Check(name, together, 1, 1 - LEVEL)
