"""Key-Write: a report writes its data to the region, once per copy."""

import random
from pathlib import Path

import numpy as np
import pytest
from dta_path import (
    ETHER,
    PROGRAM,
    REPORTER_ADDR,
    TRANSLATOR_ADDR,
    Translator,
    ours,
    tracked,
)
from scapy.layers.inet import IP, UDP

from collectors.dta.hashes import checksums, key_words, slots
from collectors.dta.packets import KeyWrite, PlainDTA, ShortKeyWrite

SLOTS = 64


def dtype(words: int) -> np.dtype:
    return np.dtype([("checksum", ">u4"), ("data", ">u4", (words,))])


def translator(
    words: int = 1, count: int = SLOTS, *, bits: int = 31, program: Path = PROGRAM
) -> tuple[Translator, np.ndarray]:
    """Return a translator with one store, and the content of this store."""
    made = Translator(program)
    region = made.session(1, dtype(words), count)
    made.key_write(words, count, bits=bits)
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
    """After 300 reports, each slot has the data of the last report that was written to it.

    The test computes the slots from the hashes of the keys.
    """
    made, records = translator(count=256)
    rng, expected = random.Random(1), np.zeros(256, dtype(1))
    for value in range(300):
        key, copies = rng.getrandbits(128), rng.randrange(1, 5)
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


def test_an_immediate_report_completes_once_with_its_first_slot() -> None:
    made, _ = translator()
    made.report(ours(KeyWrite(redundancy=3, key=9, data=[5]), immediate=1))
    ((_, immediate, length),) = made.nic.completions()
    assert (immediate, length) == (slots(key_words([9]), 1, SLOTS)[0, 0], 8)


def test_the_plain_translator_reads_the_prototype_s_shorter_header() -> None:
    plain = PROGRAM.with_name("translator_plain.p4")
    made, records = translator(program=plain)
    base = PlainDTA(immediate=1) / ShortKeyWrite(redundancy=3, key=0xC0A80001, data=[5])
    ip = IP(src=REPORTER_ADDR, dst=TRANSLATOR_ADDR)
    assert made.report(bytes(ETHER / ip / UDP(sport=40041) / base)) == 3
    assert len(made.nic.completions()) == 1
    expected, wanted = translator()
    expected.report(ours(KeyWrite(redundancy=3, key=0xC0A80001, data=[5])))
    assert records.tobytes() == wanted.tobytes() != bytes(records.nbytes)
    assert made.report(tracked(ShortKeyWrite(redundancy=3, key=0xC0A80001, data=[5]))) == 0


def test_keys_with_one_common_slot_have_different_other_slots() -> None:
    """40 keys whose first copies share a slot have their second copies in over 25 different slots.

    The prototype uses CRCs of a key with different initial values. With these, keys that share one
    slot share all.
    """
    made, records = translator()
    keys = [key for key in range(1 << 12) if slots(key_words([key]), 1, SLOTS)[0, 0] == 7][:40]
    for key in keys:
        made.report(ours(KeyWrite(redundancy=2, key=key, data=[key])))
    assert np.count_nonzero(records["checksum"]) > 25
