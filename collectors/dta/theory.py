"""What theory says of Key-Write and of Key-Increment, where hashes are like chance.

Key-Write: as in the analysis of "Direct Telemetry Access" (Langlet et al., SIGCOMM 2023), worked
out anew. Load and age are keys a slot: as many distinct keys were written, or were written since
the one that is asked for, divided by the slots of the store. Of N copies of a key of age x, each
is overwritten with q = 1 - exp(-x N); all of them, q^N. A copy that another key has overwritten
has the asked key's checksum, of b bits, with 2^-b, and then another value. That two copies are
overwritten by the same key is rarer by the number of slots: only a consensus depends on it.

Key-Increment: a count-min sketch (Cormode and Muthukrishnan 2005).
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectors.dta.key_write import Policy

Floats = NDArray[np.float64]


class Outcome(NamedTuple):
    """Of a query: how likely it is answered rightly, wrongly and not at all."""

    right: Floats
    wrong: Floats
    empty: Floats


def overwritten(age: ArrayLike, copies: int) -> Floats:
    """How likely a copy is no more there; or, of a slot at load `age`, that it was written to."""
    return -np.expm1(-np.asarray(age, np.float64) * copies)


def success(age: ArrayLike, copies: int) -> Floats:
    """How likely one copy at least is still there."""
    return 1 - overwritten(age, copies) ** copies


def mean_success(load: ArrayLike, copies: int) -> Floats:
    """The mean of success() over all keys of a store: of ages from 0 to `load`.

    An integral of 1 - q^N over the age; over q instead, of (1 + q + .. + q^(N-1)) / N.
    """
    gone = overwritten(load, copies)
    whole = sum(gone**power / power for power in range(1, copies + 1))
    return np.asarray(whole / (np.asarray(load) * copies))


def best_copies(load: float, among: Sequence[int], of: Callable[[ArrayLike, int], Floats]) -> int:
    """With how many copies `of`, success() or mean_success(), is largest."""
    return max(among, key=lambda copies: float(of(load, copies)))


def outcome(
    age: ArrayLike, copies: int, bits: int, policy: Policy, slots: float = math.inf
) -> Outcome:
    """Of a query for a key that was written, in a store of so many slots."""
    gone = overwritten(age, copies)
    alike = _alike(age, copies, slots) * 2.0**-bits
    return _asked(1 - gone, gone * 2.0**-bits, alike, copies, policy)


def outcome_of_absent(
    load: ArrayLike, copies: int, bits: int, policy: Policy, slots: float = math.inf
) -> Outcome:
    """Of a query for a key that was never written, in a store of this load."""
    written = overwritten(load, copies)
    alike = _alike(load, copies, slots) * 2.0**-bits
    return _asked(np.zeros_like(written), written * 2.0**-bits, alike, copies, policy)


def mean_outcome(
    load: float, copies: int, bits: int, policy: Policy, slots: float = math.inf
) -> Outcome:
    """The mean of outcome() over all keys of a store: of ages from 0 to `load`."""
    nodes, weights = np.polynomial.legendre.leggauss(50)  # of which 20 are exact to 1e-12
    found = outcome(load * (nodes + 1) / 2, copies, bits, policy, slots)
    return Outcome(*(np.asarray(part @ weights / 2) for part in found))


def _alike(age: ArrayLike, copies: int, slots: float) -> Floats:
    """How likely two of the copies have another key's data, and both those of the same key.

    Of M slots, each of the M dy keys of age y has written to two given ones with N (N - 1) / M^2,
    and is still in both with exp(-2 N y): the integral over y, for each pair of copies.
    """
    of_two = -np.expm1(-2 * np.asarray(age, np.float64) * copies) * (copies - 1) / (2 * slots)
    return math.comb(copies, 2) * of_two


def _asked(
    own: Floats, taken_for_own: Floats, alike: Floats, copies: int, policy: Policy
) -> Outcome:
    """Of copies that are each, by chance, the key's own, or taken for it, or neither.

    Those that are taken for it have values that differ from each other, but for those `alike`.
    """
    neither = 1 - own - taken_for_own
    alone = neither ** (copies - 1)  # no other copy is found
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
    """A bound, and how likely an estimate is above the truth by more, at most.

    With e / eps counters in a row and ln(1 / delta) rows: eps * total, and delta.
    """
    return math.e / slots * total, math.exp(-rows)


def error_exceeds(counts: NDArray[np.integer], slots: int, rows: int, most: int) -> Floats:
    """How likely the estimate of a key that was never counted is above 0, 1, .. most: (most + 1,).

    `counts`: of each key that was counted. A counter has what is left of them where each is taken
    with 1 / slots, independently: its distribution comes from its generating function, by a Fourier
    transform; and the least of a counter in each row is above what all of them are above.
    """
    size = 1 << math.ceil(math.log2(int(counts.sum()) + 1))
    turns = np.exp(2j * np.pi * np.arange(size) / size)
    logarithm = np.zeros(size, np.complex128)
    values, times = np.unique(counts, return_counts=True)
    for value, number in zip(values.tolist(), times.tolist(), strict=True):
        logarithm += number * np.log1p((turns**value - 1) / slots)
    chances = np.fft.fft(np.exp(logarithm)).real / size
    return np.clip(1 - np.cumsum(chances)[: most + 1], 0, 1) ** rows
