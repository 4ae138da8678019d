"""Key-Write: from a report to the bytes of the region, copy by copy."""

import random

import numpy as np
import pytest
from dta_path import Translator, ours, tracked

from collectors.dta.hashes import checksums, key_words, slots
from collectors.dta.packets import KeyWrite, ShortKeyWrite

SLOTS = 64


def dtype(words: int) -> np.dtype:
    return np.dtype([("checksum", ">u4"), ("data", ">u4", (words,))])


def translator(words: int = 1, count: int = SLOTS, **store: int) -> tuple[Translator, np.ndarray]:
    """With one store, and what lies in it."""
    made = Translator()
    region = made.session(1, dtype(words), count)
    made.key_write(words, count, **store)
    return made, region.records


@pytest.mark.parametrize("copies", range(1, 9))
@pytest.mark.parametrize("words", [1, 3, 7])
def test_each_copy_lies_in_its_slot(words: int, copies: int) -> None:
    made, records = translator(words, bits=20)
    key, data = 0x0123456789ABCDEF_FEDCBA9876543210, list(range(7, 7 + words))
    assert made.report(ours(KeyWrite(redundancy=copies, key=key, data=data))) == copies
    expected = np.zeros(SLOTS, dtype(words))
    for slot in slots(key_words([key]), copies, SLOTS)[:, 0]:
        expected[slot] = checksums(key_words([key]), 20)[0], data
    assert records.tobytes() == expected.tobytes()
    assert made.events() == {"translated": 1}
    assert made.nic.counts().refused == {}


def test_many_keys_lie_where_their_hashes_say() -> None:
    """The last one in a slot stays there."""
    made, records = translator(count=256)
    dice, expected = random.Random(1), np.zeros(256, dtype(1))
    for value in range(300):
        key, copies = dice.getrandbits(128), dice.randrange(1, 5)
        made.report(ours(KeyWrite(redundancy=copies, key=key, data=[value])))
        expected[slots(key_words([key]), copies, 256)[:, 0]] = (
            checksums(key_words([key]), 31)[0],
            value,
        )
    assert records.tobytes() == expected.tobytes()


def test_a_key_of_the_prototype_is_ours_with_zeros_in_front() -> None:
    short, records = translator()
    assert short.report(tracked(ShortKeyWrite(redundancy=3, key=0xC0A80001, data=[5]))) == 3
    long, expected = translator()
    long.report(ours(KeyWrite(redundancy=3, key=0xC0A80001, data=[5])))
    assert records.tobytes() == expected.tobytes() != bytes(records.nbytes)


def test_an_immediate_report_is_told_once_with_its_first_slot() -> None:
    made, _ = translator()
    made.report(ours(KeyWrite(redundancy=3, key=9, data=[5]), immediate=1))
    ((_, immediate, length),) = made.nic.completions()
    assert (immediate, length) == (slots(key_words([9]), 1, SLOTS)[0, 0], 8)
