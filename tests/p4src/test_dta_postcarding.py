"""Postcarding: the reports of all hops of a path become one chunk of memory."""

import random
from collections.abc import Iterable

import numpy as np
import pytest
from dta_gathering import ROW, Gatherer
from dta_path import ours, tracked
from numpy.typing import NDArray
from scapy.layers.l2 import Ether

from collectors.dta.hashes import HOPS, key_words, murmur3, rows
from collectors.dta.packets import Postcard, ShortPostcard
from collectors.dta.postcarding import CHUNK, Postcards
from collectors.roce.packets import ImmDt

SESSION_SEED = 0x165667B1  # seed in p4src/dta/hashes.p4
VALUES = range(100, 400)
A, B = 0x0A0000010A0000020000FA0113881F90, 7


def postcard(key: int, hop: int, value: int | None = None, **fields: int) -> bytes:
    base = {name: fields.pop(name) for name in ("immediate", "sequence", "retransmittable")
            if name in fields}  # fmt: skip
    value = 100 + hop if value is None else value
    return ours(Postcard(**{"redundancy": 1, **fields}, key=key, hop=hop, value=value), **base)


def send(translator: Gatherer, key: int, order: Iterable[int], **fields: int) -> list[int]:
    return [translator.report(postcard(key, hop, **fields)) for hop in order]


def path(memory: NDArray[np.void], key: int, copies: int = 1) -> list[int | None]:
    """Return the values of the hops of a path, as a query finds them. An unknown value is None."""
    found = Postcards(memory, VALUES, copies).query(key_words([key]))
    return [int(value) if known else None
            for value, known in zip(found.values[0], found.is_known[0], strict=True)
            ][: int(found.lengths[0])]  # fmt: skip


def row_of(key: int, count: int) -> int:
    return int(rows(key_words([key]), count)[0])


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3)])
def test_five_hops_are_one_write(order: tuple[int, ...]) -> None:
    translator = Gatherer()
    (memory,) = translator.cache()
    assert send(translator, A, order) == [0, 0, 0, 0, 1]
    assert path(memory, A) == [100, 101, 102, 103, 104]
    assert not memory["zeros"].any()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_a_path_whose_length_is_known_is_complete_with_its_last_hop(length: int) -> None:
    translator = Gatherer()
    (memory,) = translator.cache()
    assert send(translator, A, range(length), hops=length) == [0] * (length - 1) + [1]
    assert path(memory, A) == [100 + hop for hop in range(length)]


def test_one_hop_that_knows_the_length_is_enough() -> None:
    translator = Gatherer()
    (memory,) = translator.cache()
    assert send(translator, A, [0, 1]) == [0, 0]
    assert send(translator, A, [2], hops=3) == [1]
    assert path(memory, A) == [100, 101, 102]


def test_a_second_path_of_a_flow_is_written_too() -> None:
    """After a path is complete, the next postcards of the same flow become another path.

    The published translator does not free the row of the cache after the fifth postcard.
    """
    translator = Gatherer()
    (memory,) = translator.cache()
    for first in (100, 200, 300):
        writes = [translator.report(postcard(A, hop, first + hop)) for hop in range(5)]
        assert writes == [0, 0, 0, 0, 1]
        assert path(memory, A) == [first + hop for hop in range(5)]


def test_a_hop_that_reports_again_has_its_last_value() -> None:
    translator = Gatherer()
    (memory,) = translator.cache()
    for hop, value in ((0, 100), (1, 101), (1, 299), (2, 102), (3, 103)):
        assert translator.report(postcard(A, hop, value)) == 0
    assert translator.report(postcard(A, 4)) == 1
    assert path(memory, A) == [100, 299, 102, 103, 104]


def test_a_new_flow_in_a_used_row_writes_the_path_of_the_old_flow() -> None:
    """If a new flow needs the row of an old flow, the incomplete path of the old flow is written.

    The published translator writes this path to the slot of the new flow.
    """
    translator = Gatherer()
    (memory,) = translator.cache(rows=1)
    assert send(translator, A, [0, 2]) == [0, 0]
    assert send(translator, B, [1]) == [1]
    assert path(memory, A) == [100, None, 102]
    assert path(memory, B) == []
    assert send(translator, B, [0, 2, 3, 4]) == [0, 0, 0, 1]
    assert path(memory, B) == [100, 101, 102, 103, 104]
    assert path(memory, A) == [100, None, 102]


def test_a_path_of_one_hop_needs_no_row() -> None:
    translator = Gatherer()
    (memory,) = translator.cache(rows=1)
    send(translator, A, [0, 1, 2, 3])
    assert send(translator, B, [0], hops=1) == [1]
    assert path(memory, B) == [100]
    assert send(translator, A, [4]) == [1]
    assert path(memory, A) == [100, 101, 102, 103, 104]


def test_an_incomplete_path_can_be_flushed() -> None:
    translator = Gatherer()
    (memory,) = translator.cache(rows=16)
    send(translator, A, [3])
    row = row_of(A, 16)
    assert translator.flush(ROW, (row + 1) % 16) == 0
    assert translator.flush(ROW, row) == 1
    assert path(memory, A) == [None, None, None, 103]
    assert translator.flush(ROW, row) == 0
    assert send(translator, A, range(5)) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("copies", [2, 4, 8])
def test_redundant_copies_are_alike(copies: int) -> None:
    translator = Gatherer()
    (memory,) = translator.cache()
    assert sum(send(translator, A, range(5), redundancy=copies)) == copies
    for copy in range(copies):
        others = np.flatnonzero(memory["hops"].any(axis=1))
        assert len(others) == copies - copy
        memory[others[0]] = np.zeros((), CHUNK)
        assert path(memory, A, copies) == ([] if copy == copies - 1 else [*range(100, 105)])


def test_an_evicted_path_has_its_own_copies() -> None:
    translator = Gatherer()
    (memory,) = translator.cache(rows=1)
    send(translator, A, [0], redundancy=3)
    assert send(translator, B, [0], redundancy=2) == [3]
    assert path(memory, A, 3) == [100]
    assert send(translator, A, [1]) == [2]


def test_paths_lie_in_the_session_of_their_key() -> None:
    """A path is in the session of its key, even if a path of another session evicted it."""
    translator = Gatherer()
    memories = translator.cache(rows=1, sessions=4)
    keys = [*range(1, 40)]
    for key in keys:
        send(translator, key, [0], hops=2)
    translator.flush(ROW, 0)
    where = [[path(memory, key) == [100] for memory in memories] for key in keys]
    assert all(sum(found) == 1 for found in where)
    assert all(sum(found) > 3 for found in zip(*where, strict=True))
    scaled = murmur3(key_words(keys), SESSION_SEED).astype(np.uint64) * np.uint64(len(memories))
    assert [found.index(True) for found in where] == (scaled >> np.uint64(32)).tolist()


def test_an_immediate_is_that_of_the_path_which_asked_for_it() -> None:
    translator = Gatherer()
    translator.cache(rows=1)
    send(translator, A, [0], immediate=1)
    send(translator, B, [0])  # evicts the path of A
    assert ImmDt in Ether(translator.sent[-1])
    # evicts the path of B, whose postcard did not request a notification
    send(translator, A, [0], immediate=1)
    assert ImmDt not in Ether(translator.sent[-1])
    assert send(translator, A, [1, 2, 3, 4])[-1] == 1
    assert ImmDt in Ether(translator.sent[-1])


def test_the_prototype_counts_hops_from_one() -> None:
    translator = Gatherer()
    (memory,) = translator.cache()
    frames = [tracked(ShortPostcard(key=7, hop=hop, value=199 + hop)) for hop in range(1, 6)]
    assert [translator.report(frame) for frame in frames] == [0, 0, 0, 0, 1]
    assert path(memory, 7) == [200, 201, 202, 203, 204]


@pytest.mark.parametrize(
    "fields",
    [{"hop": 5}, {"hop": 255}, {"hop": 0, "hops": 6}, {"hop": 3, "hops": 3},
     {"hop": 2, "hops": 255}, {"hop": 0, "redundancy": 0}, {"hop": 0, "redundancy": 9}],
    ids=str,
)  # fmt: skip
def test_invalid_hops_and_lengths_are_refused(fields: dict[str, int]) -> None:
    translator = Gatherer()
    translator.cache(rows=1)
    send(translator, A, [0])
    assert translator.report(postcard(B, **fields)) == 0
    assert translator.events() == {"translated": 1, "out of range": 1}
    assert translator.flush(ROW, 0) == 1  # the path of A is still in its row


def test_the_prototypes_hop_zero_is_refused() -> None:
    translator = Gatherer()
    translator.cache()
    assert translator.report(tracked(ShortPostcard(key=7, hop=0, value=1))) == 0
    assert translator.events() == {"out of range": 1}


def test_memory_agrees_with_a_cache_model() -> None:
    """For 1,500 random postcards, the memory has the paths that a model of the cache predicts."""
    translator, rng, count = Gatherer(), random.Random(4), 8
    (memory,) = translator.cache(slots=1 << 12, rows=count)
    cache: dict[int, tuple[int, dict[int, int]]] = {}
    expected: dict[int, dict[int, int]] = {}
    keys = [rng.getrandbits(128) for _ in range(30)]
    for _ in range(1500):
        key, hop, value = rng.choice(keys), rng.randrange(HOPS), rng.choice(VALUES)
        translator.report(postcard(key, hop, value))
        row = row_of(key, count)
        old_key, seen = cache.get(row, (key, {}))
        if old_key != key:
            expected[old_key], seen = seen, {}
        seen[hop] = value
        cache[row] = key, seen
        if len(seen) == HOPS:
            expected[key] = seen
            del cache[row]
    found = Postcards(memory, VALUES, 1).query(key_words(keys))
    for key, values, known in zip(keys, found.values, found.is_known, strict=True):
        got = {hop: int(value) for hop, value in enumerate(values) if known[hop]}
        assert got == expected[key]
