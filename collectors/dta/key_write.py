"""Key-Write: the last values of keys, in memory that switches write to, found again by hashing.

    region = Region(slot(words=1), 1 << 20, Path("store"))
    store = Store(region.records)
    answers = store.query(key_words([0x0A000001]), copies=2)
    answers.found, answers.data

A translator writes each value to `copies` slots that are hashes of its key, whatever lies there:
it asks nothing and it keeps no state. A slot begins with a checksum of the key, by which a reader
knows it again. So a value may be gone, overwritten by others', and with few bits of checksum
an answer may be another key's: theory.py says how often.

The store is its memory: opened again, after a crash or by another process, it answers the same.
What is asked while a translator writes may be half written where a slot has more than 8 bytes.
"""

import enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import MAX_COPIES, Words, checksums, slots
from telemark.errors import TestbedError

DATA_WORDS = (1, 3, 7)  # of a slot, beside its checksum
CHECKSUM_BITS = range(8, 32)
_AT_A_TIME = 1 << 13  # keys: what they need stays in the caches of a core


class Policy(enum.Enum):
    """Which of the values that are found in a key's slots is its answer."""

    FIRST = "first"  # of the first copy that has the key's checksum
    PLURALITY = "plurality"  # that which more copies have than any other
    CONSENSUS = "consensus"  # the same, and two copies at least


class Answers(NamedTuple):
    """Of n keys."""

    found: NDArray[np.bool_]  # (n,)
    data: Words  # (n, words); zeros where nothing was found


def slot(words: int) -> np.dtype[Any]:
    """What lies in memory of a slot with so many words of data. Raises TestbedError."""
    if words not in DATA_WORDS:
        raise TestbedError(f"slots of {words} words of data: expected one of {DATA_WORDS}")
    return np.dtype([("checksum", ">u4"), ("data", ">u4", (words,))])


class Store:
    """Slots that a translator writes to."""

    def __init__(self, records: NDArray[Any], checksum_bits: int = 31) -> None:
        """`records`: those of a Region of slot()s; `checksum_bits`: as its translator has it.

        Raises TestbedError.
        """
        self.count = len(records)  # slots
        if self.count & (self.count - 1):
            raise TestbedError(f"a store of {self.count} slots: expected a power of two")
        if checksum_bits not in CHECKSUM_BITS:
            raise TestbedError(f"checksums of {checksum_bits} bits: expected 8 to 31")
        self.checksum_bits = checksum_bits
        self._words = records.view(">u4").reshape(self.count, -1)  # of each slot

    def query(self, keys: Words, copies: int, policy: Policy = Policy.PLURALITY) -> Answers:
        """What is known of keys (n, 4) that were written `copies` times. Raises TestbedError."""
        _check(copies)
        answers = Answers(
            np.empty(len(keys), np.bool_),
            np.empty((len(keys), self._words.shape[1] - 1), np.uint32),
        )
        for at in range(0, len(keys), _AT_A_TIME):
            part = slice(at, at + _AT_A_TIME)
            answers.found[part], answers.data[part] = self._asked(keys[part], copies, policy)
        return answers

    def write(self, keys: Words, data: Words, copies: int) -> None:
        """What a translator does to the memory, report after report: the model of it.

        `data`: (n, words). Raises TestbedError.
        """
        _check(copies)
        for at in range(0, len(keys), _AT_A_TIME):
            part = slice(at, at + _AT_A_TIME)
            sums = checksums(keys[part], self.checksum_bits)
            written = np.column_stack([sums, data[part]]).astype(">u4")
            places = slots(keys[part], copies, self.count).T.reshape(-1)
            self._words[places] = np.repeat(written, copies, axis=0)  # of one place the last stays

    def _asked(self, keys: Words, copies: int, policy: Policy) -> Answers:
        places = slots(keys, copies, self.count)
        copied = self._words.take(places, axis=0)  # (copies, n, 1 + words)
        is_own = copied[..., 0] == checksums(keys, self.checksum_bits)
        if policy is Policy.FIRST:
            found, choice = is_own.any(axis=0), is_own.argmax(axis=0)
        else:
            least = 2 if policy is Policy.CONSENSUS else 1
            found, choice = _elected(is_own & ~_repeated(places), copied[..., 1:], least)
        data = copied[choice, np.arange(len(keys)), 1:].astype(np.uint32)
        data[~found] = 0
        return Answers(found, data)


def _repeated(places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Of each copy (copies, n): whether an earlier one is the same slot, which has but one vote."""
    found = np.zeros(places.shape, np.bool_)
    for one in range(1, len(places)):
        found[one] = (places[:one] == places[one]).any(axis=0)
    return found


def _elected(
    is_own: NDArray[np.bool_], values: NDArray[Any], least: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether more copies, and `least`, have one value than any other has; and one that has it.

    `is_own`: (copies, n); `values`: (copies, n, words).
    """
    votes = is_own.astype(np.int8)  # of each copy: how many have its value
    for one in range(len(is_own)):
        for other in range(one):
            agree = is_own[one] & is_own[other]
            for word in range(values.shape[2]):
                agree &= values[one, :, word] == values[other, :, word]
            votes[one] += agree
            votes[other] += agree
    most = votes.max(axis=0)
    is_alone = (votes == most).sum(axis=0) == most  # or another value has as many
    return is_alone & (most >= least), votes.argmax(axis=0)


def _check(copies: int) -> None:
    if not 1 <= copies <= MAX_COPIES:
        raise TestbedError(f"{copies} copies: expected 1 to {MAX_COPIES}")
