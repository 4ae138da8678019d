"""Statistics, compared with known distributions."""

import numpy as np
import pytest

from telemark.results import statistics

DICE = np.random.default_rng(1)


def test_percentiles_of_known_values() -> None:
    found = statistics.percentiles(np.arange(1001.0))
    assert found == pytest.approx({"min": 0, "p50": 500, "p99": 990, "p99.9": 999, "max": 1000})
    assert statistics.percentiles(np.zeros(0)) == {}


@pytest.mark.parametrize(
    ("some", "every", "distance"),
    [([1, 2, 3], [1, 2, 3], 0), ([1], [2], 1), ([1, 1, 3, 3], [1, 2, 3, 4], 0.25)],
)
def test_distance_of_distributions(some: list[float], every: list[float], distance: float) -> None:
    assert statistics.ks_distance(np.array(some), np.array(every)) == distance


def test_chance_is_outside_the_bounds_once_in_a_thousand() -> None:
    count = 50
    low, high = statistics.mean_square_bounds(count)
    squares = (DICE.normal(size=(20_000, count)) ** 2).mean(axis=1)
    assert 5 < np.count_nonzero((squares < low) | (squares > high)) < 50
    limit = statistics.expected_ks_distance(count)
    every = np.linspace(0, 1, 20_001)
    distances = [statistics.ks_distance(DICE.random(count), every) for _ in range(2000)]
    assert np.count_nonzero(np.array(distances) > limit) < 10
    assert np.count_nonzero(np.array(distances) > limit / 2) > 100
