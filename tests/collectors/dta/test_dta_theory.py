"""Theory of Key-Write and Key-Increment: its limits, and a comparison with other results."""

import math

import numpy as np
import pytest

from collectors.dta.key_write import Policy
from collectors.dta.theory import (
    best_copies,
    error_bound,
    error_exceeds,
    mean_outcome,
    mean_success,
    outcome,
    outcome_of_absent,
    overwritten,
    success,
)

COPIES = (1, 2, 3, 4, 8)
# For each load, and for each number of copies: the success rate of the oldest key, and the mean of
# all keys, in thousandths.
TABLE = {
    0.05: "951/975 991/997 997/999 999/1000 1000/1000",
    0.10: "905/952 967/988 983/995 988/997 992/999",
    0.20: "819/906 891/960 908/973 908/976 835/966",
    0.30: "741/864 796/922 791/932 762/930 533/873",
    0.50: "607/787 600/832 531/823 441/797 137/644",
    1.00: "368/632 252/619 142/563 071/503 003/339",
}
# For two numbers of copies: from these loads on, the larger number gives the lower success rate.
# The first load is for the oldest key, the second one for the mean of all keys.
CROSSINGS = {(1, 2): (0.481, 0.881), (2, 3): (0.281, 0.426), (3, 4): (0.200, 0.274),
             (4, 8): (0.120, 0.149)}  # fmt: skip


@pytest.mark.parametrize("load", TABLE)
def test_success_is_that_of_the_table(load: float) -> None:
    for copies, pair in zip(COPIES, TABLE[load].split(), strict=True):
        oldest, mean = (int(number) / 1000 for number in pair.split("/"))
        assert abs(success(load, copies) - oldest) <= 0.0005
        assert abs(mean_success(load, copies) - mean) <= 0.0005


@pytest.mark.parametrize("pair", CROSSINGS)
def test_the_best_number_of_copies_changes_where_it_must(pair: tuple[int, int]) -> None:
    for function, crossing in zip((success, mean_success), CROSSINGS[pair], strict=True):
        assert best_copies(crossing - 0.001, COPIES, function) == pair[1]
        assert best_copies(crossing + 0.001, COPIES, function) == pair[0]


def test_published_example() -> None:
    """Theory gives the results of a published example.

    With a load of 0.1, 2 copies and checksums of 32 bits, 3.29 % of queries find nothing, and a
    fraction of 1.5e-11 is wrong.
    """
    found = outcome(0.1, 2, 32, Policy.PLURALITY)
    assert found.empty == pytest.approx(0.0329, abs=0.00005)
    assert found.wrong == pytest.approx(1.5e-11, rel=0.04)


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("copies", range(1, 6))
def test_an_outcome_is_that_of_all_cases(copies: int, policy: Policy) -> None:
    """An outcome equals the sum over all 3^N cases of N copies.

    In a case, each copy's slot contains the queried key, a key that is mistaken for it, or another
    key.
    """
    gone, match = float(overwritten(0.7, copies)), 2.0**-3
    chances = np.array([1 - gone, gone * match, gone * (1 - match)])
    right = wrong = 0.0
    for number in range(3 ** min(copies, 5)):
        case = [number // 3**place % 3 for place in range(copies)]
        chance = math.prod(chances[kind] for kind in case)
        values = [0 if kind == 0 else 1 + n for n, kind in enumerate(case) if kind < 2]
        answer = voted(values, policy)
        right += chance * (answer == 0)
        wrong += chance * (answer is not None and answer > 0)
    found = outcome(0.7, copies, 3, policy)
    assert found == pytest.approx((right, wrong, 1 - right - wrong), abs=1e-12)


def voted(values: list[int], policy: Policy) -> int | None:
    if policy is Policy.FIRST:
        return values[0] if values else None
    most = max((values.count(value) for value in values), default=0)
    winners = {value for value in values if values.count(value) == most}
    least = 2 if policy is Policy.CONSENSUS else 1
    return winners.pop() if len(winners) == 1 and most >= least else None


@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize("bits", [8, 12, 16])
def test_outcomes_are_within_the_published_bounds(copies: int, bits: int) -> None:
    for age in (0.05, 0.3, 1.0, 3.0):
        gone = float(overwritten(age, copies))
        match = 2.0**-bits
        lower = gone**copies * (1 - match) ** copies
        upper = lower + sum(
            math.comb(copies, j) * gone**j * (1 - gone) ** (copies - j) * (1 - (1 - match) ** j)
            for j in range(1, copies)
        )
        max_wrong = gone**copies * (1 - (1 - match) ** copies)
        found = outcome(age, copies, bits, Policy.PLURALITY)
        ties = max_wrong  # ties of wrong values, which the bounds count as wrong
        assert lower - 1e-12 <= found.empty <= upper + ties + 1e-12
        assert found.wrong <= max_wrong + 1e-12


def test_the_mean_is_that_over_all_ages() -> None:
    ages = (np.arange(100_000) + 0.5) / 100_000 * 0.8
    for copies in COPIES:
        assert mean_success(0.8, copies) == pytest.approx(success(ages, copies).mean(), abs=1e-9)
        for policy in Policy:
            means = [part.mean() for part in outcome(ages, copies, 8, policy)]
            assert mean_outcome(0.8, copies, 8, policy) == pytest.approx(means, abs=1e-9)


def test_an_absent_key_is_answered_wrongly_or_not_at_all() -> None:
    found = outcome_of_absent(0.5, 2, 8, Policy.FIRST)
    match = (1 - math.exp(-1)) / 256
    assert found == pytest.approx((0, 1 - (1 - match) ** 2, (1 - match) ** 2))
    assert outcome_of_absent(0, 2, 8, Policy.FIRST) == pytest.approx((0, 0, 1))


@pytest.mark.parametrize("copies", [2, 3])
def test_two_copies_of_one_other_key_are_as_rare_as_theory_says(copies: int) -> None:
    """A query for an absent key meets two copies of one other key as rarely as in theory.

    The test compares the owners of slots in small stores, where this happens more often.
    """
    slots, stores, rng = 64, 4000, np.random.default_rng(1)
    twice = 0
    for _ in range(stores):
        owner = np.arange(slots) + slots  # empty slots have distinct owners
        owner[rng.integers(slots, size=(slots, copies))] = np.arange(slots)[:, np.newaxis]
        asked = owner[rng.permutation(slots)[:copies]]
        twice += len(np.unique(asked)) < copies
    expected = outcome_of_absent(1.0, copies, 0, Policy.CONSENSUS, slots).wrong
    # The formula is of first order in 1 / slots; its error is of second order.
    assert twice / stores == pytest.approx(float(expected), abs=4 * math.sqrt(expected / stores))
    assert expected > 0.005


def test_counters_of_single_counts_are_binomial() -> None:
    keys, slots = 300, 64
    chances = [math.comb(keys, k) * (63 / 64) ** (keys - k) / 64.0**k for k in range(12)]
    tails = 1 - np.cumsum(chances)
    found = error_exceeds(np.ones(keys, np.int64), slots, 3, 11)
    assert found == pytest.approx(tails**3, abs=1e-12)


def test_counters_of_any_counts_are_those_of_chance() -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 40, 50)
    taken = rng.random((200_000, 50)) < 1 / 8
    errors = taken @ counts
    found = error_exceeds(counts, 8, 1, 300)
    measured = np.array([(errors > most).mean() for most in range(301)])
    assert np.abs(found - measured).max() < 1.95 / math.sqrt(200_000)  # Kolmogorov, 99.9 %


def test_the_bound_of_count_min_holds() -> None:
    counts = np.ceil(1000 / np.arange(1, 100)).astype(np.int64)
    for rows in (1, 2, 4):
        bound, chance = error_bound(rows, 64, float(counts.sum()))
        assert 0 < error_exceeds(counts, 64, rows, int(bound))[-1] <= chance
