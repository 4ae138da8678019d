"""DTA Key-Write: a hash table in memory, with the last value that was reported for each key.

    region = Region(slot(words=1), 1 << 20, Path("store"))
    store = Store(region.records)
    answers = store.query(key_words([0x0A000001]), copies=2)
    answers.found, answers.data

A translator writes each value to `copies` slots. Hashes of the key select the slots. The translator
overwrites the old content of the slots; it reads nothing and keeps no state. A slot begins with a
checksum of the key, which a reader verifies. Values of other keys may overwrite a value. If the
checksum is short, a returned value may belong to another key. theory.py computes the probabilities
of both cases. All state is in this memory. So every process that opens the memory gets the same
results, even after a crash. If a slot has more than 8 bytes, it may be half written during a query.
"""

import enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import MAX_COPIES, Words, checksums, slots
from telemark.errors import TestbedError

DATA_WORDS = (1, 3, 7)  # allowed numbers of data words per slot, without the checksum word
CHECKSUM_BITS = range(8, 32)
_BATCH = 1 << 13  # number of keys per batch; the data of a batch fit into the caches of a core


class Policy(enum.Enum):
    """Rule that selects the result from the values in the slots of a key."""

    FIRST = "first"  # value of the first copy whose checksum matches the key
    PLURALITY = "plurality"  # value that most copies have; if two values tie, there is no result
    # value that all copies with a matching checksum have; at least two such copies are necessary
    CONSENSUS = "consensus"


class Answers(NamedTuple):
    """Answers to queries for n keys: whether each key was found, and its data."""

    found: NDArray[np.bool_]  # (n,)
    data: Words  # data words, shape (n, words); they are zero if the key was not found


def slot(words: int) -> np.dtype[Any]:
    """Return the memory layout of a slot that has `words` data words. Raises TestbedError."""
    if words not in DATA_WORDS:
        raise TestbedError(f"slots of {words} words of data: expected one of {DATA_WORDS}")
    return np.dtype([("checksum", ">u4"), ("data", ">u4", (words,))])


class Store:
    """Hash table of slots to which a translator writes."""

    def __init__(self, records: NDArray[Any], checksum_bits: int = 31) -> None:
        """`records` are the records of a Region of slot()s.

        `checksum_bits` must be equal to the translator's configuration.

        Raises TestbedError.
        """
        self.count = len(records)  # number of slots
        if self.count & (self.count - 1):
            raise TestbedError(f"a store of {self.count} slots: expected a power of two")
        if checksum_bits not in CHECKSUM_BITS:
            raise TestbedError(f"checksums of {checksum_bits} bits: expected 8 to 31")
        self.checksum_bits = checksum_bits
        # words of each slot, shape (count, 1 + words)
        self._words = records.view(">u4").reshape(self.count, -1)

    def query(self, keys: Words, copies: int, policy: Policy = Policy.PLURALITY) -> Answers:
        """Look up keys, shape (n, 4), that were written to `copies` slots each.

        Raises TestbedError.
        """
        _check(copies)
        answers = Answers(
            np.empty(len(keys), np.bool_),
            np.empty((len(keys), self._words.shape[1] - 1), np.uint32),
        )
        for at in range(0, len(keys), _BATCH):
            part = slice(at, at + _BATCH)
            answers.found[part], answers.data[part] = self._query_batch(keys[part], copies, policy)
        return answers

    def write(self, keys: Words, data: Words, copies: int) -> None:
        """Write reports to the memory one by one. This is a model of the translator.

        `data` has shape (n, words). Raises TestbedError.
        """
        _check(copies)
        for at in range(0, len(keys), _BATCH):
            part = slice(at, at + _BATCH)
            sums = checksums(keys[part], self.checksum_bits)
            written = np.column_stack([sums, data[part]]).astype(">u4")
            places = slots(keys[part], copies, self.count).T.reshape(-1)
            # if several reports have the same slot, the last one remains
            self._words[places] = np.repeat(written, copies, axis=0)

    def _query_batch(self, keys: Words, copies: int, policy: Policy) -> Answers:
        places = slots(keys, copies, self.count)
        copied = self._words.take(places, axis=0)  # shape (copies, n, 1 + words)
        is_own = copied[..., 0] == checksums(keys, self.checksum_bits)
        if policy is Policy.FIRST:
            found, choice = is_own.any(axis=0), is_own.argmax(axis=0)
        else:
            least = 2 if policy is Policy.CONSENSUS else 1
            found, choice = _vote(is_own & ~_is_repeated_slot(places), copied[..., 1:], least)
        data = copied[choice, np.arange(len(keys)), 1:].astype(np.uint32)
        data[~found] = 0
        return Answers(found, data)


def _is_repeated_slot(places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each copy whether an earlier copy of its key has the same slot; shape (copies, n).

    These copies do not vote, because each slot has only one vote.
    """
    found = np.zeros(places.shape, np.bool_)
    for one in range(1, len(places)):
        found[one] = (places[:one] == places[one]).any(axis=0)
    return found


def _vote(
    is_own: NDArray[np.bool_], values: NDArray[Any], least: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return two arrays: whether a key has a winner, and the index of the copy with the winner.

    The winner is the value with the most votes. No other value may have as many votes, and the
    winner must have at least `least` votes.

    `is_own` has shape (copies, n), and `values` has shape (copies, n, words).
    """
    votes = is_own.astype(np.int8)  # number of copies that have the same value as this copy
    for one in range(len(is_own)):
        for other in range(one):
            agree = is_own[one] & is_own[other]
            for word in range(values.shape[2]):
                agree &= values[one, :, word] == values[other, :, word]
            votes[one] += agree
            votes[other] += agree
    most = votes.max(axis=0)
    is_alone = (votes == most).sum(axis=0) == most  # True if no other value has as many votes
    return is_alone & (most >= least), votes.argmax(axis=0)


def _check(copies: int) -> None:
    if not 1 <= copies <= MAX_COPIES:
        raise TestbedError(f"{copies} copies: expected 1 to {MAX_COPIES}")
