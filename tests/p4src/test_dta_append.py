"""Append: memory has each entry once, and in order. A translator writes entries in batches."""

import random

import numpy as np
import pytest
from dta_gathering import LIST, Gatherer
from dta_path import ours, tracked
from scapy.layers.l2 import Ether

from collectors.dta.append import BATCHES, NUMBERS, Place, Reader, head
from collectors.dta.packets import Append
from collectors.roce.packets import RETH, ImmDt


def entry(data: int, number: int = 0, **base: int) -> bytes:
    return ours(Append(list=number, data=data), **base)


@pytest.mark.parametrize("size", BATCHES)
def test_a_batch_is_one_write_and_none_is_lost_at_the_end_of_the_ring(size: int) -> None:
    """Each of 11 batches is one request. The reader finds all entries, also when the ring wraps.

    The published translator overwrites the first batch of each lap.
    """
    translator = Gatherer()
    ring = translator.lists(size, batches=4, count=1)[0]
    reader, found, writes = Reader(ring), [], []
    for number in range(11 * size):
        writes.append(translator.report(entry(number)))
        found += reader.pull().tolist()
    assert writes == ([0] * (size - 1) + [1]) * 11
    assert found == list(range(11 * size))
    assert (reader.lost, reader.overrun) == (0, 0)
    assert translator.nic.counts().refused.total() == 0
    assert {int(Ether(frame)[RETH].length) for frame in translator.sent} == {4 * size + 4}


def test_lists_are_gathered_apart() -> None:
    translator = Gatherer()
    rings = translator.lists(4, batches=8, count=5)
    readers, rng = [Reader(ring) for ring in rings], random.Random(1)
    sent: list[list[int]] = [[] for _ in rings]
    for number in range(300):
        at = rng.randrange(5)
        sent[at].append(number)
        translator.report(entry(number, at))
    for reader, ring, wanted in zip(readers, rings, sent, strict=True):
        whole = len(wanted) // 4 * 4
        got = reader.pull().tolist()
        assert got == wanted[max(whole - 28, 0) : whole]
        assert head(ring).number == whole // 4 + 1


def test_an_incomplete_batch_can_be_flushed() -> None:
    translator = Gatherer()
    rings = translator.lists(4, batches=8, count=2)
    reader = Reader(rings[1])
    for number in (7, 8):
        translator.report(entry(number, 1))
    assert translator.flush(LIST, 1) == 1
    assert reader.pull().tolist() == [7, 8]
    assert translator.flush(LIST, 1) == 0  # no entry waits for a batch
    assert translator.flush(LIST, 0) == 0
    for number in range(4):
        translator.report(entry(number, 1))
    assert reader.pull().tolist() == [0, 1, 2, 3]


def test_an_immediate_entry_does_not_wait_and_reports_its_list() -> None:
    translator = Gatherer()
    ring = translator.lists(8, batches=4, count=3)[2]
    reader = Reader(ring)
    assert translator.report(entry(1, 2)) == 0
    assert translator.report(entry(2, 2, immediate=1)) == 1
    assert reader.pull().tolist() == [1, 2]
    assert Ether(translator.sent[-1])[ImmDt].data == 2
    assert [each.immediate for each in translator.nic.completions()] == [2]


def test_batch_numbers_wrap_after_the_last() -> None:
    translator = Gatherer()
    ring = translator.lists(1, batches=8, count=1)[0]
    translator.engine.register_write("append_number", 0, NUMBERS - 2)
    translator.engine.register_write("append_slot", 0, 6)
    reader = Reader(ring, Place(NUMBERS - 1, 6))
    for number in range(5):
        translator.report(entry(number))
    assert reader.pull().tolist() == [0, 1, 2, 3, 4]
    assert head(ring) == Place(4, 3)


def test_the_prototype_appends_to_the_same_lists() -> None:
    translator = Gatherer()
    ring = translator.lists(2, batches=4, count=2)[1]
    translator.report(entry(1, 1))
    translator.report(tracked(Append(list=1, data=2)))
    assert Reader(ring).pull().tolist() == [1, 2]


@pytest.mark.parametrize("number", [4, 5, 0x7FFFFFFF, 0xFFFFFFFF])
def test_unknown_lists_are_not_written(number: int) -> None:
    """An entry for a list that is not configured is counted, and not written.

    The published generator also sends such entries, and the published translator writes them.
    """
    translator = Gatherer()
    rings = translator.lists(1, batches=4, count=4, first=8)
    assert translator.report(entry(9, number)) == 0
    assert translator.flush(LIST, number & 0xFFFFFF) == 0
    assert translator.events()["out of range"] == 2
    assert not rings.view(np.uint8).any()
    assert not any(translator.engine.register_read("append_slot", at) for at in range(16))


def test_lists_have_the_registers_that_they_were_given() -> None:
    """The lists of a service use only its own register cells, which begin at `first`."""
    translator = Gatherer()
    translator.lists(2, batches=4, count=4, first=8)
    for _ in range(3):
        translator.report(entry(9, 1))
    registers = [translator.engine.register_read("append_count", at) for at in range(16)]
    assert registers == [0] * 9 + [1] + [0] * 6


def test_a_service_without_lists_is_not_configured() -> None:
    translator = Gatherer()
    assert translator.report(entry(1)) == 0
    assert translator.flush(LIST, 0, service=9) == 0
    assert translator.events() == {"not configured": 2}


def test_a_batch_never_reaches_past_its_region() -> None:
    translator = Gatherer()
    rings = translator.lists(2, batches=4, count=4, length=4 * 4 * 12 - 1)
    for number in range(4):
        for _ in range(8):
            translator.report(entry(number, number))
    assert not translator.beyond[0].any()
    assert [head(ring).number for ring in rings] == [5, 5, 5, 4]


def test_an_entry_that_was_here_before_is_not_appended_again() -> None:
    translator = Gatherer()
    ring = translator.lists(1, batches=8, count=1)[0]
    translator.track()
    for sequence in (0, 1, 1, 0, 2):
        translator.report(entry(sequence, sequence=sequence, retransmittable=1))
    assert Reader(ring).pull().tolist() == [0, 1, 2]


def test_an_entry_over_the_rate_is_batched_when_it_is_retransmitted() -> None:
    """An entry that would complete a batch too early is rejected. Its retransmission is accepted.

    Entries that complete no batch are always accepted, because only the write of a batch is a
    request.
    """
    translator = Gatherer()
    ring = translator.lists(2, batches=8, count=1)[0]
    translator.limit(1, interval_ns=1_000_000)
    written = [translator.report(entry(number), time_us=1) for number in range(5)]
    # each of the last two entries would complete a batch, so it is rejected
    assert written == [0, 1, 0, 0, 0]
    assert translator.events()["too fast"] == 2
    assert translator.report(entry(3), time_us=2000) == 1
    assert Reader(ring).pull().tolist() == [0, 1, 2, 3]
