"""Sketch-Merge: memory has the sum of the columns of all reporters."""

import numpy as np
import pytest
from dta_gathering import COLUMNS, Gatherer
from dta_path import ours
from scapy.layers.l2 import Ether
from sketch_reporters import K, Reporters, some

from collectors.dta.packets import SketchMerge
from collectors.dta.sketch_merge import ROWS, read
from collectors.roce.packets import RETH, ImmDt


def test_memory_has_the_sum_of_all_reporters() -> None:
    translator = Gatherer()
    memory, reporters = translator.sketches(K), Reporters(translator)
    first, second = some(seed=1), some(seed=2)
    assert reporters.send_all(first) == 2  # sixteen columns, eight per request
    assert reporters.send_all(second, sketch=1) == 2
    assert (read(memory[0]) == first.sum(axis=0)).all()
    assert (read(memory[1]) == second.sum(axis=0)).all()
    assert {int(Ether(frame)[RETH].length) for frame in translator.sent} == {128}


def test_nothing_is_written_before_all_have_sent_all_of_eight() -> None:
    translator = Gatherer()
    memory, reporters, sketches = translator.sketches(K), Reporters(translator), some()
    for reporter in (2, 0, 1):
        for column in (7, 3, 0, 1, 2, 4, 5):
            assert reporters.send(reporter, column, sketches[reporter][:, column]) == 0
    assert reporters.send(1, 6, sketches[1][:, 6]) == 0
    assert reporters.send(0, 6, sketches[0][:, 6]) == 0
    assert not memory["rows"].any()
    assert reporters.send(2, 6, sketches[2][:, 6]) == 1
    assert (read(memory[0])[:, :8] == sketches.sum(axis=0)[:, :8]).all()
    assert not read(memory[0])[:, 8:].any()


def test_written_columns_are_reused_for_the_next_epoch() -> None:
    translator = Gatherer()
    memory, reporters = translator.sketches(K), Reporters(translator)
    for epoch in range(3):
        sketches = some(seed=epoch)
        reporters.send_all(sketches)
        assert (read(memory[0]) == sketches.sum(axis=0)).all()


def test_a_reporter_counts_once_in_a_column() -> None:
    translator = Gatherer()
    memory, reporters, sketches = translator.sketches(2, columns=8), Reporters(translator), some(8)
    reporters.send(0, 0, sketches[0][:, 0])
    for _ in range(3):
        assert reporters.send(0, 0, sketches[0][:, 0]) == 0
    assert translator.events(1) == {"translated": 1, "column twice": 3}
    for reporter, column in [*((0, column) for column in range(1, 8)), *((1, c) for c in range(8))]:
        reporters.send(reporter, column, sketches[reporter][:, column])
    assert (read(memory[0]) == sketches[:2].sum(axis=0)).all()


def test_sums_that_have_no_room_stay_at_the_most_there_is() -> None:
    translator = Gatherer()
    memory, reporters = translator.sketches(2, columns=8), Reporters(translator, 2)
    large = np.full((2, ROWS, 8), 0x80000000, np.uint32)
    large[1, 1:] = [[0x7FFFFFFF], [0x80000001], [0]]
    reporters.send_all(large)
    assert read(memory[0])[:, 3].tolist() == [0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0x80000000]


def test_an_incomplete_column_can_be_flushed() -> None:
    translator = Gatherer()
    memory, reporters, sketches = translator.sketches(K), Reporters(translator), some()
    reporters.send(1, 9, sketches[1][:, 9], sketch=1)
    reporters.send(2, 9, sketches[2][:, 9], sketch=1)
    assert translator.flush(COLUMNS, 1 << 12) == 0  # columns 0 to 7 are empty
    assert translator.flush(COLUMNS, 1 << 12 | 1) == 1
    assert (read(memory[1])[:, 9] == sketches[1:, :, 9].sum(axis=0)).all()
    # another flush sends no request: it would overwrite the columns with zeros
    assert translator.flush(COLUMNS, 1 << 12 | 1) == 0
    assert reporters.send(1, 9, sketches[1][:, 9], sketch=1) == 0
    assert translator.flush(COLUMNS, 1 << 12 | 1) == 1
    assert (read(memory[1])[:, 9] == sketches[1, :, 9]).all()


def test_an_immediate_of_the_last_column_gives_the_number_of_the_eight() -> None:
    translator = Gatherer()
    translator.sketches(1)
    reporters, sketches = Reporters(translator, 1), some(16, 1)
    for column in range(16):
        reporters.send(0, column, sketches[0][:, column], sketch=1, immediate=int(column == 15))
    assert [ImmDt in Ether(frame) for frame in translator.sent] == [False, True]
    assert [each.immediate for each in translator.nic.completions()] == [3]


@pytest.mark.parametrize(
    ("sketch", "column"), [(0, 16), (0, 0xFFFF), (2, 0), (0xFFFF, 0), (0xFFFF, 0xFFFF), (1, 17)]
)
def test_columns_that_are_not_there_are_refused(sketch: int, column: int) -> None:
    translator = Gatherer()
    memory, reporters = translator.sketches(1, first=64), Reporters(translator, 1)
    assert reporters.send(0, column, np.ones(ROWS, np.uint32), sketch) == 0
    assert translator.events(1) == {"out of range": 1}
    assert not any(translator.engine.register_read("sketch_count", at) for at in range(256))
    assert not memory["rows"].any()


def test_unknown_reporters_are_rejected() -> None:
    """A column of a reporter that is not tracked is rejected.

    The translator could not distinguish the columns of such reporters.
    """
    translator = Gatherer()
    translator.sketches(1)
    assert translator.report(ours(SketchMerge(column=0, counters=[1, 2, 3, 4]), reporter=5)) == 0
    assert translator.events() == {"not configured": 1}


def test_a_service_without_sketches_is_not_configured() -> None:
    translator = Gatherer()
    reporters = Reporters(translator, 1)
    assert reporters.send(0, 0, np.ones(ROWS, np.uint32)) == 0
    assert translator.flush(COLUMNS, 0) == 0
    assert translator.events(1) == translator.events() == {"not configured": 1}
