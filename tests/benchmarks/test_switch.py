"""benchmarks/switch.py: a short run as its users start it, and what its checks refuse."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import switch  # noqa: PLC0415

    return switch


def test_a_short_run_measures_everything(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / "switch.py", "--quick", "--out", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: too slow on a busy machine
    with (tmp_path / "samples.csv").open() as file:
        samples = {(row["measure"], row["switch"]): float(row["value"])
                   for row in csv.DictReader(file)}  # fmt: skip
    for measure in ("64 B, saturated", "latency at 80 kpps, p50"):
        assert samples.keys() >= {(measure, kind) for kind in
                                  ("no switch", "plain forwarder", "minip4")}  # fmt: skip
    assert samples["64 B, chain of three", "minip4"] > 1
    assert samples["TCP, one stream", "minip4"] > 0.01
    assert samples["latency at 80 kpps, p50", "minip4"] > 1
    checks = json.loads((tmp_path / "summary.json").read_text())["checks"]
    assert len(checks) >= 11
    assert all(check["passed"] for check in checks if check["name"].startswith("memory"))


def test_a_switch_that_is_no_file_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / "switch.py", "--out", str(tmp_path), "--simple-switch", "/none"],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--simple-switch /none: expected an executable file" in done.stderr


@pytest.mark.parametrize(
    ("kind", "measured", "passed"),
    [("AtLeast", 10, True), ("AtLeast", 9.99, False), ("AtLeast", float("nan"), False),
     ("AtMost", 10, True), ("AtMost", 10.01, False), ("AtMost", float("nan"), False)],
)  # fmt: skip
def test_bounds(switch: ModuleType, kind: str, measured: float, passed: bool) -> None:
    assert getattr(switch, kind)("name", measured, 10).passed is passed


@pytest.mark.parametrize(
    ("bmv2_kpps", "bmv2_singles_kpps", "passed"),
    [(50.0, 20.0, True), (70.0, 20.0, False), (50.0, 70.0, False)],
)
def test_ratios_are_of_medians(
    switch: ModuleType, bmv2_kpps: float, bmv2_singles_kpps: float, passed: bool
) -> None:
    measures = ("64 B, saturated", "64 B, chain of three", "TCP, one stream")
    names = ("latency at 80 kpps, real-time priority, p99", "pipeline, lpm 10",
             "pipeline, lpm 10000",
             "pipeline, exact 10", "pipeline, exact 10000", "pipeline, ternary 10",
             "pipeline, ternary 1000", "pipeline, telemetry", "source to first packet, cold",
             "source to first packet, warm", "memory")  # fmt: skip
    medians = {(name, "minip4"): 1.0 for name in names}
    for kind, value in (("minip4", 600.0), ("plain forwarder", 700.0), ("no switch", 800.0),
                        ("simple_switch", bmv2_kpps)):  # fmt: skip
        medians |= {(measure, kind): value for measure in measures}
    medians[switch.SINGLES, "simple_switch"] = bmv2_singles_kpps
    name = "64 B, saturated: times simple_switch's best of both, at least"
    (check,) = [c for c in switch.checks(medians, ("simple_switch",)) if c.name == name]
    assert check.passed is passed
