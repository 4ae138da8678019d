"""Key-Increment: in each row, a report adds to a counter of the region."""

import random

import numpy as np
from dta_path import Translator, ours, tracked
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from collectors.dta.hashes import key_words, slots
from collectors.dta.key_increment import COUNTER, Counters
from collectors.dta.packets import KeyIncrement, KeyWrite, ShortKeyIncrement
from collectors.roce.packets import BTH, AtomicETH, Op
from collectors.roce.softnic import BASE

SLOTS, ROWS = 64, 8
KEY = 0x0123456789ABCDEF_FEDCBA9876543210


def translator(rows: int = ROWS) -> tuple[Translator, np.ndarray]:
    """Return a translator with a store of counters, and the content of this store."""
    made = Translator()
    region = made.session(1, COUNTER, rows * SLOTS, fetch_add=True)
    made.counters(SLOTS)
    return made, region.records


def test_counters_are_those_of_the_model() -> None:
    made, records = translator()
    expected = np.zeros(ROWS * SLOTS, COUNTER)
    model = Counters(expected, ROWS)
    rng = random.Random(1)
    for _ in range(200):
        key, copies, addend = rng.getrandbits(128), rng.randrange(1, 9), rng.getrandbits(64)
        made.report(ours(KeyIncrement(redundancy=copies, key=key, addend=addend)))
        model.add(key_words([key]), np.array([addend], np.uint64), copies)
    assert np.array_equal(records, expected)
    assert made.events() == {"translated": 200}
    assert made.nic.counts().refused == {}


def test_a_request_has_the_bytes_of_a_fetch_add() -> None:
    """A request is a complete FETCH_ADD, with all lengths right.

    The request of the prototype has no compare field, and is four bytes longer than its length
    field says.
    """
    made, _ = translator()
    made.report(ours(KeyIncrement(redundancy=1, key=KEY, addend=5)))
    (frame,) = made.sent
    packet = Ether(frame)
    assert packet[IP].len == len(frame) - 14 == 20 + 8 + 12 + 28 + 4
    assert packet[UDP].len == len(frame) - 34
    assert (packet[BTH].opcode, packet[BTH].ackreq) == (Op.FETCH_ADD, 1)
    atomic, slot = packet[AtomicETH], int(slots(key_words([KEY]), 1, SLOTS)[0, 0])
    assert (atomic.va - BASE, atomic.swap, atomic.compare) == (8 * slot, 5, 0)


def test_a_key_of_the_prototype_is_ours_with_zeros_in_front() -> None:
    short, records = translator()
    assert short.report(tracked(ShortKeyIncrement(redundancy=3, key=0xC0A80001, addend=5))) == 3
    long, expected = translator()
    long.report(ours(KeyIncrement(redundancy=3, key=0xC0A80001, addend=5)))
    assert records.tobytes() == expected.tobytes() != bytes(records.nbytes)


def test_rows_that_the_region_does_not_have_are_not_asked_for() -> None:
    made, records = translator(rows=2)
    assert made.report(ours(KeyIncrement(redundancy=4, key=KEY, addend=1))) == 2
    assert records.reshape(2, SLOTS).sum(axis=1).tolist() == [1, 1]
    assert made.session_events(1) == {"sent": 2, "acked": 2, "out of region": 2}


def test_a_translator_without_counters_takes_none() -> None:
    made = Translator()
    assert made.report(ours(KeyIncrement(redundancy=1, key=KEY, addend=1))) == 0
    assert made.report(ours(KeyWrite(redundancy=1, key=KEY, data=[1]))) == 0
    assert made.events() == {"not configured": 2}
