"""References: committed references are valid, and results are compared with them."""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from telemark.results import reference
from telemark.results.provenance import Origin
from telemark.results.report import Check, Report

COMMITTED = sorted(path.parent.name for path in reference.REFERENCE.glob("*/summary.json"))


def leave(folder: Path, values: list[int], cpu_s: float = 0.5, **given: Any) -> dict[str, Any]:
    """Write the results of an experiment named `x`; return their summary."""
    folder.mkdir(parents=True)
    settings = {"target": "minip4", "time": "virtual", "quick": False, "seed": 1, "out": folder,
                "rate": 10}  # fmt: skip
    report = Report(
        [{"loss": value, "cpu_s": cpu_s} for value in values], [Check("loss", 0, 0)],
        machine_columns=["cpu_s"],
    )  # fmt: skip
    report.write("x", argparse.Namespace(**{**settings, **given}), Origin())
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results with a reference in virtual time."""
    monkeypatch.setattr(reference, "REFERENCE", tmp_path / "reference")
    leave(tmp_path / "reference" / "x", [1, 2])
    return tmp_path / "results"


@pytest.mark.parametrize(
    ("values", "given", "words", "agrees"),
    [
        ([1, 2], {}, "all numbers in samples.csv are equal, except .* [(]cpu_s[)]", True),
        ([1, 3], {}, "numbers DIFFER: row 2, loss: 3, reference 2", False),
        ([1], {}, "numbers DIFFER: the reference has more than 1 rows", False),
        ([1, 2, 3], {}, "numbers DIFFER: the result has more than 2 rows", False),
        (
            [1, 3],
            {"rate": 20, "quick": True},
            "not comparable: different quick, rate",
            None,
        ),
        ([1, 3], {"seed": 2}, "not comparable: different seed", None),
    ],
)
def test_numbers_of_virtual_time_are_the_reference_s(
    results: Path, values: list[int], given: dict[str, Any], words: str, agrees: bool | None
) -> None:
    summary = leave(results, values, cpu_s=0.7, **given)
    found = reference.compare(results, summary)
    assert found is not None
    assert found.agrees is agrees
    assert re.match(words, found.text), found.text


def test_in_real_time_only_verdicts_are_compared(results: Path) -> None:
    summary = leave(results, [7], time="real")
    assert reference.compare(results, summary) is None
    leave(reference.REFERENCE / "x_real", [8], time="real")
    found = reference.compare(results, summary)
    assert found is not None
    assert found.folder == reference.REFERENCE / "x_real"
    assert "1 of 1 checks of the reference passed" in found.text
    assert found.agrees is None


@pytest.mark.parametrize("name", COMMITTED)
def test_what_is_committed_says_where_it_comes_from(name: str) -> None:
    assert reference.flaws(reference.REFERENCE / name) == []


def test_there_is_a_reference_for_each_experiment(
    scripts_of: Callable[[str], set[str]],
) -> None:
    experiments = scripts_of("experiments") - reference.FETCHED.keys()
    assert len(experiments) > 6
    in_both = {name for name in experiments if not name.startswith(reference.REAL_ONLY)}
    real = {name + reference.REAL for name in experiments}
    assert {*COMMITTED} == in_both | real | {*reference.BENCHMARKS}
    assert {*COMMITTED} == {*reference.commands()}


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({"environment": {"git": "0123abc+"}}, "git 0123abc+: expected a commit"),
        ({"environment": {"git": "unknown"}}, "git unknown: expected a commit"),
        ({"date": None}, "no date"),
        ({"programs": []}, "no programs"),
        ({"parameters": {"quick": True}}, "--quick: expected a full run"),
    ],
)
def test_what_is_no_reference(tmp_path: Path, change: dict[str, Any], flaw: str) -> None:
    good = {
        "environment": {"git": "0123abc"}, "date": "2026-01-01T00:00:00+00:00",
        "programs": [{"sha256": "00"}], "parameters": {"quick": False},
    }  # fmt: skip
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(good))
    assert reference.flaws(tmp_path) == []
    path.write_text(json.dumps(good | change))
    (found,) = reference.flaws(tmp_path)
    assert found.startswith(flaw)


@pytest.mark.parametrize(
    ("name", "has"),
    [("ampm_loss", True), ("ebpf_edge_real", True), ("ebpf_topk_real", False),
     ("int_collector_real", False), ("int_path_real", True)],
)  # fmt: skip
def test_which_have_switches_and_so_programs(name: str, has: bool, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    summary = {"environment": {"git": "0123abc"}, "date": "2026-01-01T00:00:00+00:00",
               "programs": [], "parameters": {"quick": False}}  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(summary))
    assert reference.flaws(folder) == (["no programs"] if has else [])


def test_references_are_made_in_both_kinds_of_time() -> None:
    commands = reference.commands()
    assert commands["ampm_loss"] == ["experiments/ampm_loss.py", "--time", "virtual"]
    assert commands["ampm_loss_real"] == ["experiments/ampm_loss.py", "--time", "real"]
    assert not any("_venv" in name for name in commands)


@pytest.mark.parametrize(
    ("names", "state", "words"),
    [
        (
            ["none"],
            ("0123abc", []),
            "reference: error: unknown reference none; use one of ampm_congestion,",
        ),
        ([], ("0123abc+", ["a.py"]), "reference: error: uncommitted changes: a.py; commit them"),
        ([], ("unknown", []), "reference: error: not a git checkout"),
    ],
)
def test_what_cannot_make_a_reference_is_refused(
    names: list[str], state: tuple[str, list[str]], words: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(reference, "git_state", lambda _used: state)
    monkeypatch.setattr(reference.subprocess, "run", lambda *_a, **_k: pytest.fail("ran"))
    assert reference.main(names) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(words)
    assert errors.count("\n") == 1


def test_help_names_all_and_a_wrong_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        reference.main(["--help"])
    assert "starter_real" in capsys.readouterr().out
    assert reference.main(["stater"]) == 2
    assert capsys.readouterr().err.startswith(
        "reference: error: unknown reference stater; use one of ampm_"
    )
