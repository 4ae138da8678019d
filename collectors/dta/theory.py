"""Predicted success and error of Key-Write and Key-Increment, for ideal (random) hashes.

Key-Write: the derivation follows the analysis of "Direct Telemetry Access" (Langlet et al., SIGCOMM
2023). The load of a store is the number of distinct keys written, divided by the number of slots.
The age of a key is the number of distinct keys written after it, divided by the number of slots.
Each of the N copies of a key of age x is overwritten with probability q = 1 - exp(-x N), all copies
with probability q^N. With probability 2^-b, an overwritten copy has the b-bit checksum of the
queried key, and thus a wrong value. The probability that one key overwrites two copies is smaller
by a factor equal to the number of slots, so it matters only for the policy CONSENSUS.

Key-Increment: the theory of count-min sketches (Cormode and Muthukrishnan 2005).
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectors.dta.key_write import Policy

Floats = NDArray[np.float64]


class Outcome(NamedTuple):
    """Probabilities of a right answer, a wrong answer and no answer to a query."""

    right: Floats
    wrong: Floats
    empty: Floats


def overwritten(age: ArrayLike, copies: int) -> Floats:
    """Return the probability that a copy of age `age` was overwritten, or that a slot was written
    at load `age`.
    """
    return -np.expm1(-np.asarray(age, np.float64) * copies)


def success(age: ArrayLike, copies: int) -> Floats:
    """Return the probability that at least one copy of a key of this age remains."""
    return 1 - overwritten(age, copies) ** copies


def mean_success(load: ArrayLike, copies: int) -> Floats:
    """Return the mean of success() over all keys of a store, whose ages are 0 to `load`.

    The mean is the integral of 1 - q^N over the age x, divided by `load`. With q as the variable,
    the integrand becomes (1 + q + .. + q^(N-1)) / N.
    """
    gone = overwritten(load, copies)
    whole = sum(gone**power / power for power in range(1, copies + 1))
    return np.asarray(whole / (np.asarray(load) * copies))


def best_copies(load: float, among: Sequence[int], of: Callable[[ArrayLike, int], Floats]) -> int:
    """Return the number of copies that maximizes the function `of`: success() or mean_success()."""
    return max(among, key=lambda copies: float(of(load, copies)))


def outcome(
    age: ArrayLike, copies: int, bits: int, policy: Policy, slots: float = math.inf
) -> Outcome:
    """Return the probabilities of outcomes of a query for a written key, with `slots` slots."""
    gone = overwritten(age, copies)
    alike = _alike(age, copies, slots) * 2.0**-bits
    return _combine(1 - gone, gone * 2.0**-bits, alike, copies, policy)


def outcome_of_absent(
    load: ArrayLike, copies: int, bits: int, policy: Policy, slots: float = math.inf
) -> Outcome:
    """Return the probabilities of outcomes of a query for a key that was never written."""
    written = overwritten(load, copies)
    alike = _alike(load, copies, slots) * 2.0**-bits
    return _combine(np.zeros_like(written), written * 2.0**-bits, alike, copies, policy)


def mean_outcome(
    load: float, copies: int, bits: int, policy: Policy, slots: float = math.inf
) -> Outcome:
    """Return the mean of outcome() over all keys of a store, whose ages are 0 to `load`."""
    nodes, weights = np.polynomial.legendre.leggauss(50)  # 20 nodes are already exact to 1e-12
    found = outcome(load * (nodes + 1) / 2, copies, bits, policy, slots)
    return Outcome(*(np.asarray(part @ weights / 2) for part in found))


def _alike(age: ArrayLike, copies: int, slots: float) -> Floats:
    """Return the probability that a single other key has overwritten two given copies.

    Let M be the number of slots. With probability N (N - 1) / M^2, a key of age y has written to
    two given slots. With probability exp(-2 N y), both slots still hold it. There are M dy keys of
    age y. The result is the integral over y, for each pair of copies.
    """
    of_two = -np.expm1(-2 * np.asarray(age, np.float64) * copies) * (copies - 1) / (2 * slots)
    return math.comb(copies, 2) * of_two


def _combine(
    own: Floats, taken_for_own: Floats, alike: Floats, copies: int, policy: Policy
) -> Outcome:
    """Return outcome probabilities of a query; a copy is right, wrong but accepted, or rejected.

    With probability `alike`, two copies that are wrong but accepted have the same value.
    """
    neither = 1 - own - taken_for_own
    alone = neither ** (copies - 1)  # probability that no other copy is found
    several = 1 - (1 - own) ** copies - copies * own * (1 - own) ** (copies - 1)
    if policy is Policy.FIRST:
        before = sum(neither**number for number in range(copies))
        right, wrong = own * before, taken_for_own * before
    elif policy is Policy.PLURALITY:
        right, wrong = several + copies * own * alone, copies * taken_for_own * alone
    else:
        right, wrong = several, alike
    return Outcome(right, wrong, 1 - right - wrong)


def error_bound(rows: int, slots: int, total: float) -> tuple[float, float]:
    """Return a bound of the overestimation, and the maximum probability that it is exceeded.

    With e / eps counters per row and ln(1 / delta) rows, the bound is eps * total and the
    probability is delta.
    """
    return math.e / slots * total, math.exp(-rows)


def error_exceeds(counts: NDArray[np.integer], slots: int, rows: int, most: int) -> Floats:
    """Return the probabilities that the estimate of an uncounted key exceeds 0, 1, .., `most`.

    The shape is (most + 1,). `counts[i]` is the count of the i-th counted key. A counter holds the
    sum of a random subset of these counts; each count is in it with probability 1 / slots. The
    Fourier transform of the generating function gives the distribution of this sum. The minimum
    over the rows exceeds a value if all rows exceed it.
    """
    size = 1 << math.ceil(math.log2(int(counts.sum()) + 1))
    turns = np.exp(2j * np.pi * np.arange(size) / size)
    logarithm = np.zeros(size, np.complex128)
    values, times = np.unique(counts, return_counts=True)
    for value, number in zip(values.tolist(), times.tolist(), strict=True):
        logarithm += number * np.log1p((turns**value - 1) / slots)
    chances = np.fft.fft(np.exp(logarithm)).real / size
    return np.clip(1 - np.cumsum(chances)[: most + 1], 0, 1) ** rows
