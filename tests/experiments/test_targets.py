"""experiments/targets.py: whatever differs between the targets is found out."""

import argparse
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scripts

from controllers.ampm.records import Point, PointRecord
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import TestbedError
from telemark.session.run import Run
from telemark.traffic.flows import Flow

targets = scripts.module("targets")
FLOW = Flow(1, "h1", "h2", 1000, 30)


def found(target: str, *, lost: tuple[int, ...] = (3, 9), size: int = 64) -> Any:
    """30 packets over the line in two blocks, of which the first link drops some."""
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


def test_targets_that_say_the_same_pass() -> None:
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


def test_the_whole_experiment_passes_with_minip4_as_both_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = targets.measure

    async def measure_on_minip4(setting: Any, run: Run) -> Any:
        return await measure(setting, replace(run, target="minip4"))

    monkeypatch.setattr(targets.cli, "available_target", lambda _target, _time: "minip4")
    monkeypatch.setattr(targets, "measure", measure_on_minip4)
    options = argparse.Namespace(
        loss=5, rate=1000, blocks=2, quick=True, seed=1, seeds=1, time="virtual",
        target="auto", program="p4src/ampm/ampm.p4",
    )  # fmt: skip
    clock = VirtualClock()
    report = clock.run(targets.experiment(options, Run("targets", tmp_path, 1, clock=clock)))
    assert [check.name for check in report.checks if not check.passed] == []
    assert [(row["target"], row["block"]) for row in report.samples] == [
        ("minip4", 0), ("minip4", 1), ("bmv2", 0), ("bmv2", 1),
    ]  # fmt: skip
    assert report.figure is not None


def test_virtual_time_has_no_bmv2(tmp_path: Path) -> None:
    done: subprocess.CompletedProcess[str] = scripts.run(
        "targets", "--time", "virtual", "--out", str(tmp_path)
    )
    assert done.returncode == 2
    assert done.stderr == (
        "targets: error: --target bmv2: not available in virtual time; use --time real\n"
    )
