"""bmv2's Thrift API: the calls of its bindings, their arguments and their results."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from thrift_bindings import STAND_IN, stand_in_program

from telemark.backends.real.bmv2_thrift import bindings
from telemark.backends.real.bmv2_thrift.client import Thrift, ThriftCalls
from telemark.errors import TestbedError


@pytest.fixture
def told(thrift_stand_in: Path) -> Callable[[], list[Any]]:
    return lambda: [json.loads(line) for line in thrift_stand_in.read_text().splitlines()]


@pytest.fixture
def calls(thrift_stand_in: Path) -> Iterator[ThriftCalls]:
    calls = ThriftCalls()
    yield calls
    calls.stop()


@pytest.fixture
def thrift(calls: ThriftCalls) -> Thrift:
    return Thrift("s1", 9091, calls)


def test_a_queue_s_changes_are_those_of_its_port(thrift: Thrift, told: Any) -> None:
    thrift.set_queue(0, depth=10, rate_pps=500)
    assert told() == [[9091, "depth", 0, 10], [9091, "rate", 0, 500]]


def test_switches_share_one_process(calls: ThriftCalls, told: Any) -> None:
    Thrift("s1", 9091, calls).set_all_queues(4096)
    process = calls._process
    Thrift("s2", 9092, calls).set_queue(3, depth=64)
    assert calls._process is process is not None
    assert told() == [[9091, "all depths", 4096], [9092, "depth", 3, 64]]


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
def test_changes_that_bmv2_does_not_support_are_rejected_as_a_whole(
    thrift: Thrift, told: Any, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(TestbedError, match=f"^switch s1, port 2: .*{words}"):
        thrift.set_queue(2, **changes)
    assert told() == []


def test_registers_are_read_cell_by_cell_or_whole(thrift: Thrift, told: Any) -> None:
    assert thrift.read_register("I.narrow", 32) == [0, 1, 2, 3]
    assert thrift.read_register("I.narrow", 32, 3) == [3]
    assert thrift.read_register("I.wide", 64, 0) == [5]
    assert thrift.read_register("I.wide", 63) == [5, 2**63 - 1]  # each value fits into 63 bits


def test_cells_too_large_for_thrift_are_rejected(thrift: Thrift, told: Any) -> None:
    for index in (None, 1):
        with pytest.raises(
            TestbedError, match=r"I.wide: cell 1 is 2\*\*63 - 1 or more \(64 bits\)"
        ):
            thrift.read_register("I.wide", 64, index)


def test_cells_are_written(thrift: Thrift, told: Any) -> None:
    thrift.write_register("I.narrow", 2**63 - 1, range(1, 3))
    assert told() == [[9091, "cells", "I.narrow", 1, 3, 2**63 - 1]]
    with pytest.raises(TestbedError, match=r"I\.wide: value 9223372036854775808: expected 0 to"):
        thrift.write_register("I.wide", 2**63, range(1))
    assert len(told()) == 1


def test_errors_of_bmv2_have_its_code(thrift: Thrift, told: Any) -> None:
    words = r"^switch s1: bmv2: register_read: .*INVALID_REGISTER_NAME"
    with pytest.raises(TestbedError, match=words):
        thrift.read_register("I.gone", 32)
    assert thrift.read_register("I.narrow", 32, 1) == [1]  # the client still works


def test_a_process_that_ends_is_reported_and_restarted(thrift: Thrift, told: Any) -> None:
    with pytest.raises(TestbedError, match="Thrift API: process ended: no output"):
        thrift.read_register("I.broken", 32)
    assert thrift.read_register("I.narrow", 32, 1) == [1]


def test_a_switch_that_does_not_listen(calls: ThriftCalls, told: Any) -> None:
    with pytest.raises(TestbedError, match=r"depth: TTransportException: Could not connect"):
        Thrift("s1", 1, calls).set_queue(1, depth=1)


def test_bmv2_without_thrift(
    thrift_stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_program(tmp_path, "  --device-id arg", monkeypatch)
    calls = ThriftCalls()
    assert not calls.has_port
    assert calls.missing == "this bmv2 was built without Thrift"
    with pytest.raises(TestbedError, match="register_read: this bmv2 was built without Thrift"):
        Thrift("s1", 9091, calls).read_register("I.narrow", 32)


def test_bmv2_with_thrift_and_without_bindings(
    thrift_stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(bindings.CHOICE, "/nowhere/python")
    calls = ThriftCalls()
    assert calls.has_port
    assert "no Thrift bindings of bmv2 (/nowhere/python: " in (calls.missing or "")
    monkeypatch.setenv(bindings.CHOICE, "/bin/false")
    assert "/bin/false: exit status 1" in (ThriftCalls().missing or "")
    monkeypatch.delenv(bindings.CHOICE)
    monkeypatch.setattr(bindings, "PLACES", ("/nowhere/a", "/nowhere/b"))
    missing = ThriftCalls().missing or ""
    assert "/nowhere/a: " in missing
    assert "/nowhere/b: " in missing
    assert "python3-thrift" in missing


def test_without_bmv2_there_is_no_thrift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not bindings.has_thrift()


def test_bindings_below_bmv2_s_prefix_are_found(
    thrift_stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bmv2's bindings are found below the prefix where bmv2 is installed.

    Debian's Python does not search this prefix, so the folder of the bindings is added to
    PYTHONPATH.
    """
    (tmp_path / "bin").mkdir()
    stand_in_program(tmp_path / "bin", "  --thrift-port arg", monkeypatch)
    folder = tmp_path / "lib" / "python3.99" / "site-packages"
    folder.parent.mkdir(parents=True)
    folder.symlink_to(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", "")
    assert bindings.environment()["PYTHONPATH"] == str(folder)
    calls = ThriftCalls()
    try:
        assert Thrift("s1", 9091, calls).read_register("I.narrow", 32, 3) == [3]
    finally:
        calls.stop()


SIGNATURES = """
import inspect, json
from bm_runtime.standard import Standard
from bm_runtime.standard.ttypes import RegisterOperationErrorCode
from sswitch_runtime import SimpleSwitch
calls = {"bm_register_read": Standard, "bm_register_read_all": Standard,
         "bm_register_write_range": Standard, "set_all_egress_queue_depths": SimpleSwitch,
         "set_egress_queue_depth": SimpleSwitch, "set_egress_queue_rate": SimpleSwitch}
found = {name: [*inspect.signature(getattr(module.Client, name)).parameters]
         for name, module in calls.items()}
print(json.dumps([found, sorted(RegisterOperationErrorCode._VALUES_TO_NAMES.items())]))
"""


def test_the_stand_in_has_the_signatures_of_bmv2_s_bindings(
    thrift_stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signatures(python: str) -> str:
        done = subprocess.run([python, "-c", SIGNATURES], capture_output=True, text=True,
                              check=True, env=bindings.environment())  # fmt: skip
        return done.stdout

    ours = signatures(sys.executable)
    for name in (bindings.CHOICE, "PYTHONPATH"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(":")[2])
    if (missing := ThriftCalls().missing) is not None:
        pytest.skip(missing)
    assert signatures(bindings.interpreter()) == ours
