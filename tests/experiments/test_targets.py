"""experiments/targets.py: every difference between the targets is detected."""

import argparse
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scripts

from controllers.ampm.records import Point, PointRecord
from experiments.shared.both_targets import dta_memory, int_reports, outputs
from experiments.shared.both_targets.outputs import Outputs, Part
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import TestbedError
from telemark.session.run import Run
from telemark.traffic.flows import Flow

targets = scripts.module("targets")
FLOW = Flow(1, "h1", "h2", 1000, 30)


def found(target: str, *, lost: tuple[int, ...] = (3, 9), size: int = 64) -> Any:
    """Return 30 packets over the line in two blocks; the first link drops some of them."""
    reports = {
        block: SimpleNamespace(
            problems=[],
            records={1: {point: PointRecord(block, packets=15, bytes=15 * size)
                         for point in targets.POINTS}},
        )
        for block in (7, 8)
    }  # fmt: skip
    links = {(1, "s1", "s2"): np.array(lost[::-1]), (1, "s2", "s3"): np.array([5])}
    outcome = SimpleNamespace(reports=reports, dropped=links)
    return targets.TargetRun(target, 1, outcome, FLOW)


def failed(ours: Any, theirs: Any) -> set[str]:
    return {check.name for check in targets.compare_targets([ours, theirs]) if not check.passed}


def test_targets_with_equal_results_pass() -> None:
    assert failed(found("minip4"), found("bmv2")) == set()
    assert found("minip4").counts[Point("s2", "arrivals")] == (30, 1920)
    assert list(found("minip4").lost["s1-s2"]) == [3, 9]


def test_another_packet_lost_is_found_though_as_many_were() -> None:
    wrong = {"seed 1: packets dropped by s1-s2 on one target only"}
    assert failed(found("minip4"), found("bmv2", lost=(3, 10))) == wrong


@pytest.mark.parametrize("block", [7, 8])
def test_one_byte_counted_too_many_is_found(block: int) -> None:
    theirs = found("bmv2")
    records = theirs.outcome.reports[block].records[1]
    records[Point("s3", "departures")] = PointRecord(block, packets=15, bytes=15 * 64 + 1)
    wrong = {"seed 1: points with different counts on both targets"}
    assert failed(found("minip4"), theirs) == wrong


def test_a_block_that_was_not_read_says_nothing_about_targets() -> None:
    theirs = found("bmv2")
    targets.reject_unread("bmv2", theirs.outcome)
    theirs.outcome.reports[8].problems.append("block 8: switch s2 was read too late")
    with pytest.raises(TestbedError, match="run invalid: bmv2: block 8: switch s2 was read too"):
        targets.reject_unread("bmv2", theirs.outcome)


@pytest.mark.parametrize(
    ("least", "measured", "most", "is_wrong"),
    [
        (1000.0, 1000, 1000.0, False), (1000.0, 1001, 1000.0, False),
        (1000.0, 1002, 1000.0, True), (1000.0, 998, 1000.0, True),
        (1000.0, 1400, 1500.0, False), (None, None, None, False),
        (1000.0, None, 1500.0, True), (None, 1000, None, True),
    ],
)  # fmt: skip
def test_a_delay_that_cannot_be_is_found(
    least: float | None, measured: int | None, most: float | None, is_wrong: bool
) -> None:
    row = {"min_delay_us": least, "measured_delay_us": measured, "max_delay_us": most}
    assert targets.count_delay_mismatches([row]) == is_wrong


OPTIONS = argparse.Namespace(
    loss=5, rate=1000, blocks=2, quick=True, seed=1, seeds=1, time="virtual", target="auto",
    program="p4src/ampm/ampm.p4",
)  # fmt: skip


def run_on_minip4(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Any:
    """Run the experiment with minip4 as both targets. The second target runs this INT program."""
    measure, measure_others = targets.measure, targets.measure_others

    async def measure_on_minip4(setting: Any, run: Run) -> Any:
        return await measure(setting, replace(run, target="minip4"))

    async def measure_others_on_minip4(packets: int, roce: Any, run: Run) -> Any:
        if run.target == "bmv2":
            monkeypatch.setattr(int_reports, "PROGRAM", program)
        return await measure_others(packets, roce, replace(run, target="minip4"))

    monkeypatch.setattr(targets.cli, "available_target", lambda _target, _time: "minip4")
    monkeypatch.setattr(targets, "measure", measure_on_minip4)
    monkeypatch.setattr(targets, "measure_others", measure_others_on_minip4)
    clock = VirtualClock()
    options = argparse.Namespace(**vars(OPTIONS))
    return clock.run(targets.experiment(options, Run("targets", folder, 1, clock=clock)))


def failed_of(report: Any) -> set[str]:
    return {check.name for check in report.checks if not check.passed}


def test_the_whole_experiment_passes_with_minip4_as_both_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_on_minip4(tmp_path, monkeypatch, int_reports.PROGRAM)
    assert failed_of(report) == set()
    names = {check.name for check in report.checks}
    stores = [f"DTA: {name}" for name in dta_memory.STORES]
    for part in ("INT: reports, MD", "INT: reports, drops", "RoCEv2: frames", *stores):
        assert f"seed 1: {part}: difference between targets (bytes)" in names
    assert "bmv2, seed 1: DTA: Sketch-Merge: error (bytes)" in names
    assert [(row["target"], row["block"]) for row in report.samples] == [
        ("minip4", 0), ("minip4", 1), ("bmv2", 0), ("bmv2", 1),
    ]  # fmt: skip
    assert report.figure is not None


def test_ports_that_one_target_swaps_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swapped = ("hop.p4", "7w0 ++ hop.ingress_port ++ 7w0 ++ hop.egress_port",
               "7w0 ++ hop.egress_port ++ 7w0 ++ hop.ingress_port")  # fmt: skip
    program = scripts.with_faults(tmp_path, [swapped], "int/int.p4")
    (tmp_path / "run").mkdir()
    report = run_on_minip4(tmp_path / "run", monkeypatch, program)
    assert failed_of(report) == {
        *(f"seed 1: INT: reports, {mode}: difference between targets (bytes)"
          for mode in ("MD", "MX", "XD", "drops")),
        "bmv2, seed 1: INT: hops with wrong node or ports",
    }  # fmt: skip


def made(**parts: Sequence[bytes]) -> Outputs:
    accounting: Any = SimpleNamespace(checks=lambda _name: [])
    known = {name: Part(part, [b"abc", b"de"]) for name, part in parts.items()}
    return Outputs("X", known, {"frames": (2, 2)}, {("s1", "s2"): 2}, accounting)


@pytest.mark.parametrize(
    ("theirs", "differing"),
    [
        ([b"abc", b"de"], 0), ([b"abd", b"de"], 1), ([b"abc", b"d"], 1), ([b"abc", b"de", b"f"], 1),
        ([b"abc"], 2), ([b"bc", b"de"], 3),
    ],
)  # fmt: skip
def test_one_byte_of_a_part_is_found(theirs: list[bytes], differing: int) -> None:
    ours = found("minip4")
    one = replace(ours, outputs=[made(one=[b"abc", b"de"], other=[b"abc", b"de"])])
    other = replace(ours, target="bmv2", outputs=[made(one=theirs, other=[b"abc", b"de"])])
    [of_one, of_other] = [c for c in targets.compare_targets([one, other]) if "X: " in c.name]
    assert of_one.name == "seed 1: X: one: difference between targets (bytes)"
    assert (of_one.measured, of_other.measured) == (differing, 0)
    wrong = {check.name: check.measured for check in outputs.check("bmv2", other.outputs[0])}
    assert wrong == {"bmv2: X: one: error (bytes)": differing,
                     "bmv2: X: other: error (bytes)": 0, "bmv2: X: frames": 2}  # fmt: skip


def test_frames_that_bmv2_dropped_make_a_run_inconclusive() -> None:
    ours = made(one=[])
    # if bmv2 sends more frames, a check fails
    outputs.reject_drops(ours, replace(ours, sent={("s1", "s2"): 3}))
    with pytest.raises(TestbedError, match="run invalid: X: bmv2 dropped 1 frames in s1 for s2"):
        outputs.reject_drops(ours, replace(ours, sent={("s1", "s2"): 1}))


def test_a_report_loses_its_times_only() -> None:
    """Only the times of a report are removed, and its checksum is adapted.

    The stack has one switch. The checksum must be that of a stack whose times are 0.
    """
    own, stack = bytes(range(1, 29)), bytes(range(101, 133))
    inner = bytearray(28) + bytes(16)
    inner[26:28] = b"\x12\x34"
    head = bytearray(62)
    head[52], head[54:56] = 7, (int(int_reports.WANTED) & 0x7FFF).to_bytes(2, "big")
    cleared = int_reports.clear_times(bytes(head) + own + bytes(inner) + stack)
    assert cleared[:62] == head
    assert cleared[62:90] == own[:4] + bytes(24)
    assert cleared[134:] == stack[:8] + bytes(24)
    words = sum(int.from_bytes(stack[at : at + 2], "big") for at in range(8, 32, 2))
    assert int.from_bytes(cleared[116:118], "big") == (0x1234 + words) % 0xFFFF


def test_virtual_time_has_no_bmv2(tmp_path: Path) -> None:
    done: subprocess.CompletedProcess[str] = scripts.run(
        "targets", "--time", "virtual", "--out", str(tmp_path)
    )
    assert done.returncode == 2
    assert done.stderr == (
        "targets: error: --target bmv2: not available in virtual time; use --time real\n"
    )
