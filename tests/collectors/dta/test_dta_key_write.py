"""The store of Key-Write: found and missing values, query policies, faults of other stores.

The store of the prototype had two faults. It hashed the wrong bytes to find the slots of all copies
but the first, and it returned data in a byte order that depended on the reader. See the tests of
copies and of byte order.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from collectors.dta.hashes import WRITTEN, checksums, key_words, slots
from collectors.dta.key_write import Policy, Store, slot
from collectors.dta.theory import Outcome, mean_outcome, mean_success, outcome_of_absent
from collectors.roce.region import Region
from telemark.errors import TestbedError

WRITER = """
import os, sys
from pathlib import Path
import numpy as np
from collectors.dta.hashes import key_words
from collectors.dta.key_write import Store, slot
from collectors.roce.region import Region
store = Store(Region(slot(3), 1 << 10, Path(sys.argv[1])).records)
store.write(key_words([7, 8]), np.array([[1, 2, 3], [4, 5, 6]], np.uint32), 2)
os._exit(0)  # at once: nothing is closed
"""


def store_of(words: int = 1, count: int = 1 << 10, checksum_bits: int = 31) -> Store:
    return Store(Region(slot(words), count).records, checksum_bits)


def random_words(count: int, words: int, seed: int) -> NDArray[np.uint32]:
    return np.random.default_rng(seed).integers(1 << 32, size=(count, words), dtype=np.uint32)


@pytest.mark.parametrize("words", [1, 3, 7])
@pytest.mark.parametrize("policy", Policy)
def test_what_was_written_is_found_and_nothing_else(words: int, policy: Policy) -> None:
    store = store_of(words, 1 << 16)
    keys, data = random_words(100, 4, 1), random_words(100, words, 2)
    store.write(keys, data, 2)
    answers = store.query(keys, 2, policy)
    assert answers.found.all()
    assert np.array_equal(answers.data, data)
    absent = store.query(random_words(10_000, 4, 3), 2, policy)
    assert not absent.found.any()
    assert not absent.data.any()


@pytest.mark.parametrize("policy", Policy)
def test_memory_of_zeros_answers_nothing(policy: Policy) -> None:
    keys = np.concatenate([random_words(1000, 4, 1), key_words([0])])
    assert not store_of(checksum_bits=8).query(keys, 2, policy).found.any()


def test_bytes_in_memory_are_those_of_the_format() -> None:
    region = Region(slot(3), 1 << 4)
    Store(region.records, 16).write(key_words([5]), np.array([[1, 2, 0x0A0B0C0D]], np.uint32), 1)
    place = int(slots(key_words([5]), 1, 1 << 4)[0, 0])
    checksum = int(checksums(key_words([5]), 31)[0]) % (1 << 16) + WRITTEN
    octets = region.bytes.tobytes()
    written = checksum.to_bytes(4, "big") + bytes.fromhex("00000001 00000002 0a0b0c0d")
    assert octets == bytes(16 * place) + written + bytes(16 * (15 - place))


@pytest.mark.parametrize("copies", [2, 3, 4, 8])
def test_one_intact_copy_is_enough_for_a_query(copies: int) -> None:
    keys, data = random_words(10, 4, 1), random_words(10, 1, 2)
    for kept in range(copies):
        region = Region(slot(1), 1 << 16)
        store = Store(region.records)
        store.write(keys, data, copies)
        places = slots(keys, copies, 1 << 16)
        region.records[np.delete(places, kept, axis=0)] = 0
        for policy in (Policy.FIRST, Policy.PLURALITY):
            answers = store.query(keys, copies, policy)
            assert answers.found.all()
            assert np.array_equal(answers.data, data)
        assert not store.query(keys, copies, Policy.CONSENSUS).found.any()


def test_a_slot_has_one_vote_however_many_copies_it_holds() -> None:
    keys = random_words(20_000, 4, 1)
    places = slots(keys, 3, 64)
    doubled = keys[(places[0] == places[1]) & (places[1] != places[2])][:50]
    for number, key in enumerate(doubled[:, np.newaxis]):
        store, data = store_of(count=64), random_words(1, 1, number)
        store.write(key, data, 2)  # both copies are in one slot
        assert store.query(key, 2, Policy.PLURALITY).data == data
        assert not store.query(key, 2, Policy.CONSENSUS).found
        store.write(key, data, 3)
        assert store.query(key, 3, Policy.CONSENSUS).data == data


# Contents of a key's copies, and the result of each policy: first, plurality, consensus.
VOTES: dict[str, tuple[list[int | None], list[int | None]]] = {
    "nothing": ([None, None, None, None], [None, None, None]),
    "all": ([5, 5, 5, 5], [5, 5, 5]),
    "one": ([None, None, 5, None], [5, 5, None]),
    "more": ([6, 5, 5, None], [6, 5, 5]),
    "three of four": ([6, 5, 5, 5], [6, 5, 5]),
    "a tie of single ones": ([6, None, None, 5], [6, None, None]),
    "a tie of pairs": ([6, 5, 5, 6], [6, None, None]),
    "all differ": ([1, 2, 3, 4], [1, None, None]),
    "zero is a value": ([None, 0, 0, None], [0, 0, 0]),
}


@pytest.mark.parametrize("words", [1, 3])
@pytest.mark.parametrize("case", VOTES)
def test_votes(case: str, words: int) -> None:
    held, expected = VOTES[case]
    region = Region(slot(words), 1 << 10)
    key = key_words([77])
    for value, place in zip(held, slots(key, 4, 1 << 10)[:, 0], strict=True):
        if value is not None:
            region.records[place]["checksum"] = checksums(key, 31)[0]
            region.records[place]["data"][-1] = value  # all earlier words are equal
    for policy, answer in zip(Policy, expected, strict=True):
        found, data = Store(region.records).query(key, 4, policy)
        assert (int(data[0, -1]) if found[0] else None) == answer, policy


def test_of_keys_that_meet_the_last_one_stays() -> None:
    keys, data = random_words(3000, 4, 1), random_words(3000, 1, 2)
    at_once, one_by_one = store_of(), store_of()
    at_once.write(keys, data, 3)
    for index in range(len(keys)):
        one_by_one.write(keys[index : index + 1], data[index : index + 1], 3)
    assert at_once.query(keys, 3).found.sum() > 100
    assert np.array_equal(at_once._words, one_by_one._words)


def test_a_key_is_known_by_all_its_bits_and_by_as_many_of_the_checksum_as_there_are() -> None:
    store = store_of(count=1 << 12, checksum_bits=8)
    store.write(key_words([1]), np.array([[9]], np.uint32), 1)
    others = key_words([(1 << 96) * n + 1 for n in range(1, 1 << 16)])
    place = slots(key_words([1]), 1, 1 << 12)
    meet = (slots(others, 1, 1 << 12) == place)[0]
    same = checksums(others, 8) == checksums(key_words([1]), 8)
    found = store.query(others, 1).found
    assert meet.sum() > 5
    assert np.array_equal(found, meet & same)


def test_the_store_is_its_file(tmp_path: Path) -> None:
    """A store keeps its content in a file: it has the values that a killed process wrote there.

    A file with a region of a different length is rejected.
    """
    path = tmp_path / "store"
    subprocess.run([sys.executable, "-c", WRITER, path], check=True)
    answers = Store(Region(slot(3), 1 << 10, path).records).query(key_words([8, 9, 7]), 2)
    assert answers.found.tolist() == [True, False, True]
    assert answers.data.tolist() == [[4, 5, 6], [0, 0, 0], [1, 2, 3]]
    with pytest.raises(TestbedError, match="the region has"):
        Region(slot(3), 1 << 11, path)


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_random_keys_are_answered_as_theory_says(copies: int) -> None:
    """Queries of random keys are right, wrong or empty as often as in theory.

    100,000 reports with checksums of 8 bits make it a small version of
    benchmarks/speed/dta_stores.py.
    """
    keys, data = random_words(100_000, 4, copies), random_words(100_000, 1, 9)
    store = store_of(count=1 << 18, checksum_bits=8)
    store.write(keys, data, copies)
    load = len(keys) / store.count
    for policy in Policy:
        found, got = store.query(keys, copies, policy)
        right = found & (got == data).all(axis=1)
        counts = Outcome(*(np.asarray(x.sum()) for x in (right, found & ~right, ~found)))
        near(counts, mean_outcome(load, copies, 8, policy), len(keys))
        absent = store.query(random_words(100_000, 4, 50), copies, policy).found.sum()
        near((absent,), (outcome_of_absent(load, copies, 8, policy).wrong,), len(keys))
    exact = store_of(count=1 << 18)
    exact.write(keys, data, copies)
    found, got = exact.query(keys, copies)
    assert np.array_equal(got[found], data[found])
    near((found.sum(),), (mean_success(load, copies),), len(keys))


def near(counts: tuple[object, ...], chances: tuple[object, ...], queries: int) -> None:
    """Check that counts of independent queries are within four standard deviations."""
    for count, chance in zip(np.array(counts, float), np.array(chances, float), strict=True):
        assert abs(count - queries * chance) <= 4 * np.sqrt(queries * chance * (1 - chance)) + 1e-9


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: slot(2), "2 words"),
        (lambda: store_of(count=1000), "power of two"),
        (lambda: store_of(checksum_bits=7), "7 bits"),
        (lambda: store_of(checksum_bits=32), "32 bits"),
        (lambda: store_of().query(key_words([1]), 0), "0 copies"),
        (lambda: store_of().write(key_words([1]), np.zeros((1, 1), np.uint32), 9), "9 copies"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_line(make: object, word: str) -> None:
    with pytest.raises(TestbedError, match=word):
        make()  # type: ignore[operator]
