"""Queues and registers of bmv2 over Thrift: calls of p4-utils' class, and their results."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemark.backends.real.p4utils.environment import CHOICE
from telemark.backends.real.p4utils.thrift import Thrift, ThriftCalls
from telemark.errors import TestbedError


@pytest.fixture
def told(p4utils_stand_in: Path) -> Callable[[], list[Any]]:
    return lambda: [json.loads(line) for line in p4utils_stand_in.read_text().splitlines()]


@pytest.fixture
def calls() -> Iterator[ThriftCalls]:
    calls = ThriftCalls()
    yield calls
    calls.stop()


@pytest.fixture
def thrift(calls: ThriftCalls) -> Thrift:
    return Thrift("s1", 9091, calls)


def test_a_queue_s_changes_are_those_of_its_port(thrift: Thrift, told: Any) -> None:
    thrift.set_queue(0, depth=10, rate_pps=500)
    made = ["made", 9091, "127.0.0.1"]
    assert told() == [made, ["depth", 10, "0", None], made, ["rate", 500, "0", None]]


def test_switches_share_one_process(calls: ThriftCalls, told: Any) -> None:
    Thrift("s1", 9091, calls).set_all_queues(4096)
    process = calls._process
    Thrift("s2", 9092, calls).set_queue(3, depth=64)
    assert calls._process is process is not None
    assert told() == [
        ["made", 9091, "127.0.0.1"], ["depth", 4096, None, None],
        ["made", 9092, "127.0.0.1"], ["depth", 64, "3", None],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate_bps": 8000}, "bmv2: no queue parameter rate_bps; expected"),
        ({"depth": 5, "bytes": 1500}, "bmv2: no queue parameter bytes; expected"),
        ({"depth": 0}, "depth 0: expected 1 to"),
        ({"depth": 1, "rate_pps": -1}, "rate_pps -1: expected 0 to"),
        ({"depth": True}, "depth: expected a whole"),
        ({"depth": 5, "priority": 1}, "no queue of priority 1; expected 0"),
    ],
)
def test_what_a_queue_of_bmv2_has_not_is_refused_whole(
    thrift: Thrift, told: Any, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(TestbedError, match=f"^switch s1, port 2: .*{words}"):
        thrift.set_queue(2, **changes)
    assert told() == []


def test_registers_are_read_cell_by_cell_or_whole(thrift: Thrift, told: Any) -> None:
    assert thrift.read_register("I.narrow", 32) == [0, 1, 2, 3]
    assert thrift.read_register("I.narrow", 32, 3) == [3]
    assert thrift.read_register("I.wide", 64, 0) == [5]
    assert thrift.read_register("I.wide", 63) == [5, 2**63 - 1]  # it fits


def test_cells_that_thrift_cannot_tell_are_refused(thrift: Thrift, told: Any) -> None:
    for index in (None, 1):
        with pytest.raises(
            TestbedError, match=r"I.wide: cell 1 is 2\*\*63 - 1 or more \(64 bits\)"
        ):
            thrift.read_register("I.wide", 64, index)


def test_cells_are_written(thrift: Thrift, told: Any) -> None:
    thrift.write_register("I.narrow", 2**63 - 1, range(1, 3))
    assert told()[1:] == [["write", "I.narrow", [1, 3], 2**63 - 1]]
    with pytest.raises(
        TestbedError,
        match=r"register I\.wide: value 9223372036854775808: expected 0 to 2\*\*63 - 1 \(Thrift\)",
    ):
        thrift.write_register("I.wide", 2**63, range(1))
    assert len(told()) == 2


def test_what_the_class_only_prints_is_an_error(thrift: Thrift, told: Any) -> None:
    with pytest.raises(TestbedError, match=r"^switch s1: bmv2: register_read: Error: Invalid reg"):
        thrift.read_register("I.gone", 32)
    assert thrift.read_register("I.narrow", 32, 1) == [1]  # and it goes on


def test_a_process_that_ends_is_told_and_made_anew(thrift: Thrift, told: Any) -> None:
    with pytest.raises(TestbedError, match="Thrift API: process ended: no output"):
        thrift.read_register("I.broken", 32)
    assert thrift.read_register("I.narrow", 32, 1) == [1]


def test_a_switch_that_does_not_listen(calls: ThriftCalls, told: Any) -> None:
    with pytest.raises(TestbedError, match=r"depth: Could not connect .* port 1 Make sure"):
        Thrift("s1", 1, calls).set_queue(1, depth=1)


def test_without_p4_utils(thrift: Thrift, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "/nowhere/python")
    with pytest.raises(TestbedError, match="P4UTILS_PYTHON=/nowhere/python: expected a Python"):
        thrift.read_register("I.narrow", 32)
    monkeypatch.delenv(CHOICE)
    monkeypatch.setattr(
        "telemark.backends.real.p4utils.environment.PLACES", ("/nowhere/a", "/nowhere/b")
    )
    with pytest.raises(TestbedError, match=r"not found in /nowhere/a or /nowhere/b; .*vagrant up"):
        thrift.read_register("I.narrow", 32)
