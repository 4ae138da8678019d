"""Counters of Key-Increment: not below ground truth, with errors as in theory, and persistent."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from collectors.dta.hashes import key_words, slots
from collectors.dta.key_increment import COUNTER, Counters
from collectors.dta.theory import error_exceeds
from collectors.roce.region import Region
from telemark.errors import TestbedError


def counters_of(rows: int, slots: int) -> Counters:
    return Counters(Region(COUNTER, rows * slots).records, rows)


def random_keys(count: int, seed: int) -> NDArray[np.uint32]:
    return np.random.default_rng(seed).integers(1 << 32, size=(count, 4), dtype=np.uint32)


def test_a_counter_of_each_row_is_added_to() -> None:
    region = Region(COUNTER, 4 * 16)
    key = key_words([5])
    Counters(region.records, 4).add(key, np.array([7], np.uint64), 3)
    places = slots(key, 3, 16)[:, 0]
    expected = np.zeros((4, 16), np.uint64)
    expected[[0, 1, 2], places] = 7
    assert region.bytes.tobytes() == expected.tobytes()


def test_counts_add_up_and_wrap() -> None:
    counters = counters_of(2, 1 << 10)
    keys = key_words([1, 2, 1])
    counters.add(keys, np.array([3, 5, 1 << 40], np.uint64), 2)
    assert counters.estimate(keys, 2).tolist() == [(1 << 40) + 3, 5, (1 << 40) + 3]
    counters.add(keys[:1], np.array([(1 << 64) - (1 << 40)], np.uint64), 2)
    assert counters.estimate(keys[:1], 2).tolist() == [3]


def test_the_estimate_is_the_minimum_of_the_added_rows() -> None:
    counters = counters_of(4, 1 << 4)
    keys = random_keys(200, 1)
    addends = np.arange(1, 201).astype(np.uint64)
    counters.add(keys, addends, 2)
    estimates = counters.estimate(keys, 2)
    assert np.all(estimates >= addends)
    assert np.all(estimates <= counters.estimate(keys, 1))
    assert not counters.estimate(keys, 4).any()  # two rows are empty


@pytest.mark.parametrize("rows", [1, 3])
def test_errors_are_distributed_as_theory_says(rows: int) -> None:
    """Counters of keys that were never counted have errors as in theory.

    The test uses 200 sets of counters.
    """
    sizes = np.ceil(400 / np.arange(1, 101)).astype(np.int64)
    above = []
    for seed in range(200):
        counters = counters_of(rows, 1 << 6)
        counters.add(random_keys(100, 2 * seed), sizes.astype(np.uint64), rows)
        estimates = counters.estimate(random_keys(200, 2 * seed + 1), rows)
        above.append([(estimates > most).mean() for most in (0, 10, 50, 200)])
    expected = error_exceeds(sizes, 1 << 6, rows, 200)[[0, 10, 50, 200]]
    error = np.std(above, axis=0, ddof=1) / np.sqrt(len(above))
    assert np.all(np.abs(np.mean(above, axis=0) - expected) < 4 * error + 1e-9)


def test_the_counters_are_their_file(tmp_path: Path) -> None:
    path = tmp_path / "counters"
    first = Region(COUNTER, 32, path)
    Counters(first.records, 2).add(key_words([1]), np.array([9], np.uint64), 2)
    del first
    again = Counters(Region(COUNTER, 32, path).records, 2)
    assert again.estimate(key_words([1]), 2).tolist() == [9]


@pytest.mark.parametrize(("count", "rows"), [(30, 2), (32, 3), (0, 1), (32, 9), (32, 0)])
def test_what_cannot_be_is_refused_in_a_line(count: int, rows: int) -> None:
    with pytest.raises(TestbedError, match="expected"):
        Counters(np.zeros(count, np.uint64), rows)


def test_more_copies_than_rows_are_refused() -> None:
    with pytest.raises(TestbedError, match="3 copies: expected 1 to 2, one per row"):
        counters_of(2, 16).estimate(key_words([1]), 3)
