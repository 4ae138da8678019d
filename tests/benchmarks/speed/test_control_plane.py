"""The benchmark control_plane.py, started as users start it, with smaller tables."""

import csv
import json
import subprocess
import sys
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "control_plane.py"


def test_the_longest_holds_are_measured_or_the_run_is_invalid(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--quick", "--out", tmp_path],
                          capture_output=True, text=True, check=False, timeout=300)  # fmt: skip
    if done.returncode == 2:
        assert "run invalid: " in done.stderr.splitlines()[-1], done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert next(check["measured"] for check in summary["checks"]) == 0  # no packet was lost
    rows = list(csv.DictReader((tmp_path / "samples.csv").open()))
    at_work = {row["operation"]: int(row["words"]) for row in rows if row["table"] == "at work"}
    assert at_work.keys() == {"entry", "commit", "read", "state", "settings"}
    assert 0 < at_work["commit"] <= 4096  # an atomic batch has 5,000 entries
    assert 0 < at_work["read"] <= 4096


@pytest.fixture
def control_plane(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import control_plane  # noqa: PLC0415

    return control_plane


@pytest.mark.parametrize(
    ("cpu_us", "turns", "found"),
    [
        ([(5, 7)], 1, (5, 7)),
        # The first turn was interrupted in operation a, the second turn in operation b.
        ([(5000, 7), (6, 9000), (8, 9)], 2, (6, 7)),
        ([(5000, 7), (5001, 9), (5002, 8)], 3, (5000, 7)),  # operation a itself needs this time
    ],
)
def test_a_hold_in_one_turn_only_is_ignored(
    control_plane: ModuleType, monkeypatch: pytest.MonkeyPatch,
    cpu_us: list[tuple[int, int]], turns: int, found: tuple[int, int],
) -> None:  # fmt: skip
    numbers = count()

    class HoldMeasurement:
        def __init__(self, kind: str, entries: int, _seed: int) -> None:
            pair = cpu_us[next(numbers)]
            self.rows = [control_plane.Longest(what, kind, entries, 0.0, us, 1)
                         for what, us in zip("ab", pair, strict=True)]  # fmt: skip

        def measure(self) -> None:
            pass

    monkeypatch.setattr(control_plane, "HoldMeasurement", HoldMeasurement)
    rows = control_plane.measure_holds("exact", 10, 1)
    assert tuple(row.cpu_us for row in rows) == found
    assert next(numbers) == turns
