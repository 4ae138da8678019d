"""Predictions for Key-Write (success) and Key-Increment (error), if hashes are random.

Key-Write: the derivation follows the analysis of "Direct Telemetry Access" (Langlet et al., SIGCOMM
2023). The load of a store is the number of distinct keys that were written, divided by the number
of slots. The age of a key is the number of distinct keys that were written after it, divided by the
number of slots. For a key of age x, each of its N copies is overwritten with probability q = 1 -
exp(-x N). All copies are overwritten with probability q^N. An overwritten copy has the b-bit
checksum of the queried key with probability 2^-b; its value is then wrong. One key may also
overwrite two copies. With M slots, this is about M times less likely. So it matters only for the
policy CONSENSUS.

Key-Increment: the theory is that of count-min sketches (Cormode and Muthukrishnan 2005).
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
    """Return the probability that a copy of this age was overwritten.

    This is also the probability that a slot was written, if the load of the store equals `age`.
    """
    return -np.expm1(-np.asarray(age, np.float64) * copies)


def success(age: ArrayLike, copies: int) -> Floats:
    """Return the probability that at least one copy of a key of this age still exists."""
    return 1 - overwritten(age, copies) ** copies


def mean_success(load: ArrayLike, copies: int) -> Floats:
    """Return the mean of success() over all keys of a store. The ages of the keys are 0 to `load`.

    The mean is the integral of 1 - q^N over the age x, divided by `load`. If q is the variable, the
    integrand becomes (1 + q + .. + q^(N-1)) / N.
    """
    gone = overwritten(load, copies)
    whole = sum(gone**power / power for power in range(1, copies + 1))
    return np.asarray(whole / (np.asarray(load) * copies))


def best_copies(load: float, among: Sequence[int], of: Callable[[ArrayLike, int], Floats]) -> int:
    """Return the number of copies that maximizes `of`, which is success() or mean_success()."""
    return max(among, key=lambda copies: float(of(load, copies)))


def outcome(
    age: ArrayLike, copies: int, bits: int, policy: Policy, slots: float = math.inf
) -> Outcome:
    """Return the probabilities of the answers for a key that was written.

    The store has `slots` slots.
    """
    gone = overwritten(age, copies)
    alike = _alike(age, copies, slots) * 2.0**-bits
    return _combine(1 - gone, gone * 2.0**-bits, alike, copies, policy)


def outcome_of_absent(
    load: ArrayLike, copies: int, bits: int, policy: Policy, slots: float = math.inf
) -> Outcome:
    """Return the probabilities of the answers for a key that was never written."""
    written = overwritten(load, copies)
    alike = _alike(load, copies, slots) * 2.0**-bits
    return _combine(np.zeros_like(written), written * 2.0**-bits, alike, copies, policy)


def mean_outcome(
    load: float, copies: int, bits: int, policy: Policy, slots: float = math.inf
) -> Outcome:
    """Return the mean of outcome() over all keys of a store.

    The ages of the keys are 0 to `load`.
    """
    nodes, weights = np.polynomial.legendre.leggauss(50)  # 20 nodes would already be exact to 1e-12
    found = outcome(load * (nodes + 1) / 2, copies, bits, policy, slots)
    return Outcome(*(np.asarray(part @ weights / 2) for part in found))


def _alike(age: ArrayLike, copies: int, slots: float) -> Floats:
    """Return the probability that a single other key has overwritten two copies.

    Let M be the number of slots. A key of age y has written to two given slots with probability N
    (N - 1) / M^2. Both slots still contain that key with probability exp(-2 N y). There are M dy
    keys of age y. For one pair of copies, the probability is the integral over y. The result is the
    sum over all pairs.
    """
    of_two = -np.expm1(-2 * np.asarray(age, np.float64) * copies) * (copies - 1) / (2 * slots)
    return math.comb(copies, 2) * of_two


def _combine(
    own: Floats, taken_for_own: Floats, alike: Floats, copies: int, policy: Policy
) -> Outcome:
    """Return the probabilities of answers from the probabilities for one copy.

    A copy is right (`own`), or wrong but accepted (`taken_for_own`), or rejected.

    `alike` is the probability that two copies are wrong but accepted, and have the same value.
    """
    neither = 1 - own - taken_for_own
    alone = neither ** (copies - 1)  # probability that all other copies are rejected
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

    With e / eps counters per row and ln(1 / delta) rows, the bound is eps * total. It is exceeded
    with probability delta at most.
    """
    return math.e / slots * total, math.exp(-rows)


def error_exceeds(counts: NDArray[np.integer], slots: int, rows: int, most: int) -> Floats:
    """Return the probabilities that the estimate for a key without counts exceeds 0, 1, .., `most`.

    The shape is (most + 1,). `counts[i]` is the count of key i. A counter contains the sum of a
    random subset of these counts; each count is in the subset with probability 1 / slots,
    independently of the others. The distribution of the sum is the Fourier transform of its
    generating function. The estimate is the minimum over the rows. It exceeds a value if the
    counters of all rows exceed this value.
    """
    size = 1 << math.ceil(math.log2(int(counts.sum()) + 1))
    turns = np.exp(2j * np.pi * np.arange(size) / size)
    logarithm = np.zeros(size, np.complex128)
    values, times = np.unique(counts, return_counts=True)
    for value, number in zip(values.tolist(), times.tolist(), strict=True):
        logarithm += number * np.log1p((turns**value - 1) / slots)
    chances = np.fft.fft(np.exp(logarithm)).real / size
    return np.clip(1 - np.cumsum(chances)[: most + 1], 0, 1) ** rows
