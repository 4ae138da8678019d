"""Comparisons with theory are correct for known distributions, and have the stated error rate."""

import math

import numpy as np
import pytest

from telemark.results.goodness_of_fit import agreement_check, binomial_p_value, t_test_p_value


@pytest.mark.parametrize(("trials", "chance"), [(20, 0.3), (7, 0.5), (30, 0.01)])
def test_the_chance_of_a_count_is_that_of_its_tail(trials: int, chance: float) -> None:
    each = [math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
            for k in range(trials + 1)]  # fmt: skip
    for count in range(trials + 1):
        tails = math.fsum(each[: count + 1]), math.fsum(each[count:])
        assert binomial_p_value(count, trials, chance) == pytest.approx(min(1, 2 * min(tails)))


def test_the_chance_of_a_count_among_many() -> None:
    trials, deviation = 10_000_000, math.sqrt(10_000_000 * 0.25)
    for sigmas, two_tails in ((1, 0.3173), (3, 0.0027), (5, 5.73e-7)):
        count = round(trials / 2 + sigmas * deviation)
        assert binomial_p_value(count, trials, 0.5) == pytest.approx(two_tails, rel=0.01)
    assert binomial_p_value(trials, trials, 0.5) == 0
    assert binomial_p_value(5, trials, 1e-9) < 1e-9
    assert (binomial_p_value(0, 9, 0), binomial_p_value(1, 9, 0)) == (1, 0)
    assert (binomial_p_value(9, 9, 1), binomial_p_value(8, 9, 1)) == (1, 0)


@pytest.mark.parametrize(  # quantiles of Student's distribution, from tables
    ("freedom", "t", "two_tails"),
    [(1, 12.706, 0.05), (4, 4.604, 0.01), (10, 1.812, 0.10), (30, 3.646, 0.001)],
)
def test_the_chance_of_a_mean_is_student_s(freedom: int, t: float, two_tails: float) -> None:
    values = np.arange(freedom + 1) - freedom / 2
    error = values.std(ddof=1) / math.sqrt(freedom + 1)
    assert t_test_p_value(values, t * error) == pytest.approx(two_tails, rel=2e-3)
    assert t_test_p_value(values, 0) == pytest.approx(1)


def test_runs_that_all_agree() -> None:
    assert t_test_p_value([2, 2, 2], 2) == 1
    assert t_test_p_value([2, 2, 2], 2.1) == 0


def test_a_figure_that_agrees_fails_once_in_a_hundred() -> None:
    rng = np.random.default_rng(1)
    failed = 0
    for _ in range(2000):
        means = [t_test_p_value(rng.normal(3, 2, 8), 3) for _ in range(10)]
        failed += not agreement_check("x", means).passed
    assert 5 <= failed <= 40  # 20 failures are expected


def test_one_point_that_is_off_fails_its_figure() -> None:
    assert agreement_check("x", [0.5, 0.2, 0.9]).passed
    assert not agreement_check("x", [0.5, 0.2, 0.003]).passed
    assert agreement_check("x", [0.5, 0.2, 0.0034]).passed
    assert "of 3 points" in agreement_check("x", [0.5, 0.2, 0.003]).name


def test_agreement_without_points_fails() -> None:
    assert not agreement_check("x", []).passed
