"""The store of Postcarding: paths are returned as written, or not at all."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from collectors.dta.hashes import BLANK, HOPS, Words, hop_checksums, key_words, slots, value_codes
from collectors.dta.postcarding import (
    CHUNK,
    Postcards,
    alone_flows_deviation,
    alone_probability,
    false_path,
)
from telemark.errors import TestbedError

SWITCHES = np.arange(1000, 1100)
DICE = np.random.default_rng(5)


def some_keys(count: int, seed: int = 1) -> Words:
    return np.random.default_rng(seed).integers(1 << 32, size=(count, 4), dtype=np.uint32)


def write(
    chunks: NDArray[Any],
    key: Words,
    path: list[int | None],
    copies: int = 1,
    copy: int | None = None,
) -> None:
    """Write a path as a translator does; `copy` selects a single copy."""
    blank = [BLANK if value is None else value_codes(np.array([value], np.uint32))[0]
             for value in [*path, *[None] * (HOPS - len(path))]]  # fmt: skip
    covered = np.array(blank, np.uint32) ^ hop_checksums(key)[:, 0]
    places = slots(key, copies, len(chunks))[:, 0]
    for slot in places if copy is None else places[copy : copy + 1]:
        chunks["hops"][slot] = covered


def test_paths_of_all_lengths_come_back() -> None:
    chunks, keys = np.zeros(1 << 10, CHUNK), some_keys(5)
    paths = [[*range(1000, 1000 + length)] for length in range(1, 6)]
    for key, path in zip(keys, paths, strict=True):
        write(chunks, key[np.newaxis], [*path])
    found = Postcards(chunks, SWITCHES, 1).query(keys)
    assert found.lengths.tolist() == [1, 2, 3, 4, 5]
    assert found.is_complete.all()
    assert [row[:length].tolist() for row, length in zip(found.values, found.lengths, strict=True)
            ] == paths  # fmt: skip


def test_a_hop_that_is_missing_is_not_known_and_the_path_not_complete() -> None:
    chunks, keys = np.zeros(16, CHUNK), some_keys(1)
    write(chunks, keys, [1001, None, 1003])
    found = Postcards(chunks, SWITCHES, 1).query(keys)
    assert found.is_known.tolist() == [[True, False, True, False, False]]
    assert found.values.tolist() == [[1001, 0, 1003, 0, 0]]
    assert (found.is_found.all(), found.is_complete.any(), found.lengths.tolist()) == (
        True,
        False,
        [3],
    )


@pytest.mark.parametrize("fill", ["zeros", "ones", "random", "all blank"])
def test_unwritten_memory_holds_no_path(fill: str) -> None:
    chunks, keys = np.zeros(1 << 8, CHUNK), some_keys(1000)
    words = chunks["hops"]
    if fill == "ones":
        words[:] = 0xFFFFFFFF
    elif fill == "random":
        words[:] = DICE.integers(1 << 32, size=words.shape)
    elif fill == "all blank":
        for key in keys:
            write(chunks, key[np.newaxis], [None] * 5)
    found = Postcards(chunks, SWITCHES, 2).query(keys)
    assert not found.is_found.any()
    assert not found.values.any()


def test_a_key_does_not_get_another_ones_path() -> None:
    """A query for a key does not return the path of another key.

    All keys share one slot, so only the path of the last key is found.
    """
    chunks, keys = np.zeros(1, CHUNK), some_keys(500)
    for key in keys:
        write(chunks, key[np.newaxis], [1000, 1001, 1002, 1003, 1004])
    assert np.flatnonzero(Postcards(chunks, SWITCHES, 1).query(keys).is_found).tolist() == [499]


def test_values_outside_of_the_allowed_ones_are_no_path() -> None:
    chunks, keys = np.zeros(16, CHUNK), some_keys(1)
    write(chunks, keys, [1000, 999])
    assert not Postcards(chunks, SWITCHES, 1).query(keys).is_found.any()


def test_the_path_that_most_copies_say_is_the_answer() -> None:
    """A query returns the path that most copies contain.

    Copies of an older path remain where writes of the new path were lost.
    """
    chunks, keys = np.zeros(1 << 16, CHUNK), some_keys(1)
    old: list[int | None] = [1000, 1001]
    new: list[int | None] = [1000, 1001, 1002]
    write(chunks, keys, old, copies=4)
    write(chunks, keys, new, copies=4, copy=0)
    for copy, length in ((None, 2), (1, 0), (2, 3)):  # first 1 of 4 copies is new, then 2, then 3
        if copy is not None:
            write(chunks, keys, new, copies=4, copy=copy)
        found = Postcards(chunks, SWITCHES, 4).query(keys)
        assert found.lengths.tolist() == [length]
    # other keys have overwritten three copies
    chunks["hops"][slots(keys, 4, len(chunks))[:3, 0]] = 7
    assert Postcards(chunks, SWITCHES, 4).query(keys).lengths.tolist() == [2]


def test_a_copy_of_gaps_is_not_like_one_whose_value_is_zero() -> None:
    chunks, keys = np.zeros(1 << 16, CHUNK), some_keys(1)
    write(chunks, keys, [5, None, 7], copies=2)
    write(chunks, keys, [5, 0, 7], copies=2, copy=1)
    assert not Postcards(chunks, [0, 5, 7], 2).query(keys).is_found.any()


def test_a_random_word_is_a_code_as_often_as_theory_says() -> None:
    """A random word is a valid code of a value as often as in theory.

    There are so many values that this happens. The other four words of each chunk are correct.
    """
    values, count = 1 << 22, 1 << 16
    keys, chunks = some_keys(count // 4, 2), np.zeros(count, CHUNK)
    places, first = np.unique(slots(keys, 1, count)[0], return_index=True)
    keys = keys[first]
    chunks["hops"][places] = (hop_checksums(keys) ^ np.uint32(BLANK)).T
    chunks["hops"][places, 0] = DICE.integers(1 << 32, size=len(keys))
    found = np.count_nonzero(Postcards(chunks, np.arange(values), 1).query(keys).is_found)
    expected = len(keys) * false_path(values) ** (1 / HOPS)
    assert expected > 10
    assert abs(found - expected) < 4 * np.sqrt(expected)


def test_a_value_with_the_code_of_an_absent_hop_is_refused() -> None:
    codes = value_codes(np.arange(4, dtype=np.uint32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("collectors.dta.postcarding.BLANK", int(codes[2]))
        with pytest.raises(
            TestbedError, match="value 0x2: its code is reserved for hops without a report"
        ):
            Postcards(np.zeros(4, CHUNK), range(4), 1)


def test_slots_are_a_power_of_two() -> None:
    with pytest.raises(TestbedError, match="3 slots of postcards: expected a power of two"):
        Postcards(np.zeros(3, CHUNK), SWITCHES, 1)


def test_no_key_is_no_path() -> None:
    found = Postcards(np.zeros(4, CHUNK), SWITCHES, 2).query(key_words([]))
    assert (found.values.shape, found.is_complete.shape) == ((0, 5), (0,))


def test_how_many_flows_are_alone_is_as_theory_says() -> None:
    """The number of flows that are alone in their row has the mean and deviation of theory.

    Over 4,000 draws, both are within 4 standard errors of theory.
    """
    flows, rows, draws = 60, 64, 4000
    counts = np.array([
        np.count_nonzero(np.bincount(row) == 1)
        for row in np.random.default_rng(3).integers(rows, size=(draws, flows))
    ])  # fmt: skip
    deviation = alone_flows_deviation(flows, rows)
    assert abs(counts.mean() - flows * alone_probability(flows, rows)) < 4 * deviation / np.sqrt(
        draws
    )
    assert abs(counts.std() - deviation) < 4 * deviation / np.sqrt(2 * draws)
    assert false_path((1 << 18) - 1) * 2**70 == pytest.approx(1)
