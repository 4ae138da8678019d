"""Results are written completely or not at all, and other users can read them."""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
import pytest

from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.files import make_folder
from telemark.results.provenance import Origin
from telemark.results.report import Check, Report, Reproduction, strict_json, table


def options(folder: Path) -> argparse.Namespace:
    return argparse.Namespace(
        target="minip4", time="real", quick=True, seed=3, out=folder, interactive=False, loss=[1.0]
    )


def report(**changes: object) -> Report:
    figure, (axes,) = plots.figure()
    axes.errorbar([1, 2], [3, 4], yerr=[0.1, 0.2], label="x")
    parts = {
        "samples": [{"block": np.int64(1), "loss": 0.5}, {"block": np.int64(2), "loss": 0.25}],
        "checks": [Check("error", np.float64(0.0), 0), Check("delay", 9.5, 10, 1)],
        "metrics": {"mean": np.float64(0.375), "each": np.array([1, 2])},
        "figure": figure,
        "caption": "What it shows.",
    }
    return Report(**(parts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("measured", "expected", "tolerance", "passed"),
    [
        (0, 0, 0, True), (1, 0, 0, False), (-1, 0, 1, True), (1.5, 0, 1, False),
        (float("nan"), 0, 1e9, False), (float("inf"), 0, 1e9, False),
    ],
)  # fmt: skip
def test_checks(measured: float, expected: float, tolerance: float, passed: bool) -> None:
    assert Check("x", measured, expected, tolerance).passed is passed


def test_a_report_without_a_check_has_not_passed() -> None:
    assert not report(checks=[]).passed
    assert report().passed


def test_everything_is_written(tmp_path: Path) -> None:
    report().write("example", options(tmp_path), Origin("Why?"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["example.pdf", "example.png", "example.svg", "samples.csv", "summary.json"]
    with (tmp_path / "samples.csv").open() as file:
        assert list(csv.reader(file)) == [["block", "loss"], ["1", "0.5"], ["2", "0.25"]]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["experiment"] == "example"
    assert summary["target"] == "minip4"
    assert summary["parameters"] == {"time": "real", "quick": True, "loss": [1.0]}
    assert summary["seed"] == 3
    assert summary["caption"] == "What it shows."
    assert {"kernel", "cpu", "git", "changed", "versions"} <= summary["environment"].keys()
    assert summary["question"] == "Why?"
    assert {"date", "duration_s", "programs"} <= summary.keys()
    assert summary["checks"][1] == {
        "name": "delay", "measured": 9.5, "expected": 10, "tolerance": 1, "passed": True,
    }  # fmt: skip
    assert summary["metrics"] == {"mean": 0.375, "each": [1, 2]}


def test_numbers_that_json_does_not_have_become_null() -> None:
    """Strict parsers reject NaN and Infinity (RFC 8259, section 6)."""
    text = strict_json({"mean": float("nan"), "each": [1, float("inf")], "array": np.array([0.5])})
    assert json.loads(text) == {"mean": None, "each": [1, None], "array": [0.5]}


def test_the_same_data_give_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, day in (("a", 1), ("b", 2)):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(day * 86_400))  # Matplotlib's time for figures
        (tmp_path / name).mkdir()
        report().write("example", options(tmp_path / name), Origin("Why?"))
    for name in ("example.pdf", "example.png", "example.svg", "samples.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_run_that_fails_to_write_leaves_the_earlier_results(tmp_path: Path) -> None:
    report().write("example", options(tmp_path), Origin("Why?"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    uneven = report(samples=[{"block": 7}, {"block": 8, "unknown": 9}], figure=None)
    with pytest.raises(ValueError, match="unknown"):
        uneven.write("example", options(tmp_path), Origin("Why?"))
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    report().write("example", options(tmp_path), Origin("Why?"))  # removes the half-written file
    assert {path.name for path in tmp_path.iterdir()} == before.keys()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/telemark")):
        with pytest.raises(TestbedError, match="cannot write results"):
            make_folder(folder)


def test_results_belong_to_the_user_who_called_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "1235")
    folder = tmp_path / "a" / "b"
    make_folder(folder)
    report(figure=None).write("example", options(folder), Origin("Why?"))
    for path in (folder.parent, folder, folder / "samples.csv", folder / "summary.json"):
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


def test_the_screen_shows_tables_and_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = Check("an error", 1, 0)
    shown = table("Losses", ("segment", "loss"), [("s1-s2", 0.123456), ("s2-s3", 2)])
    report(checks=[failed], tables=[shown]).show(tmp_path)
    text = capsys.readouterr().out
    for words in ("Losses", "s1-s2", "0.1235", "an error", "FAILED", str(tmp_path)):
        assert words in text


@pytest.mark.parametrize(
    ("measured", "reason", "distance", "verdict"),
    [
        ([0.94, 0.96, 0.99], "", 0, "reproduced"),
        ([0.9, 0.9, 0.99], "", 0.05, "not reproduced"),
        ([1.2], "", 0.2, "not reproduced"),
        ([0.9], "other traces", None, "not reproduced: other traces"),
    ],
)
def test_a_published_number_is_reproduced_if_the_median_is_in_the_accepted_range(
    measured: list[float], reason: str, distance: float | None, verdict: str
) -> None:
    number = Reproduction("recall", "Figure 5", "95 %", (0.95, 1.0), measured, reason)
    assert number.verdict == verdict
    checks = number.checks()
    assert [round(check.measured, 9) for check in checks] == ([] if reason else [distance])
    assert all(check.passed == (verdict == "reproduced") for check in checks)


def test_reproductions_are_saved_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = Reproduction("recall", "Figure 5", "95 %", (0.95, 1.0), [0.96, 0.97, 0.99])
    made = report(reproductions=[number])
    made.write("x", options(tmp_path), Origin())
    (saved,) = json.loads((tmp_path / "summary.json").read_text())["reproductions"]
    assert (saved["median"], saved["verdict"]) == (0.97, "reproduced")
    made.show(tmp_path)
    assert "0.96 to 0.99" in capsys.readouterr().out
