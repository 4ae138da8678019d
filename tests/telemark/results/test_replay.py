"""replay.json: its content, and the section of the results page that shows it."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
from replays import TIMES_US, replay

from telemark.results import index, reference
from telemark.results.provenance import Origin
from telemark.results.report import Check, Report


def packets(path: Path) -> list[list[int]]:
    """Return the packets as the page reads them."""
    (flow,) = json.loads(path.read_text())["flows"]
    rows = np.array(flow["packets"]).reshape(-1, 2 * len(flow["path"]) - 2)
    rows[:, 0] = np.cumsum(rows[:, 0])
    found: list[list[int]] = np.cumsum(rows, axis=1).tolist()
    return found


def leave(folder: Path, caption: str | None) -> None:
    """Write the results of an experiment, with a replay if there is a caption."""
    folder.mkdir(parents=True, exist_ok=True)
    options = argparse.Namespace(target="minip4", time="virtual", quick=True, seed=1, out=folder)
    shown = None if caption is None else replay(caption)
    Report([{"x": 1}], [Check("y", 1, 1)], replay=shown).write("a", options, Origin())


def test_times_are_written_as_steps(tmp_path: Path) -> None:
    replay().write(tmp_path / "replay.json")
    assert packets(tmp_path / "replay.json") == TIMES_US
    said = json.loads((tmp_path / "replay.json").read_text())
    assert (said["zero_us"], said["lasts_us"]) == (50, 1000)
    assert said["places"]["s1"] == [0.3, 0.5]


def test_what_was_over_before_is_left_out(tmp_path: Path) -> None:
    replay(begin_us=450).write(tmp_path / "replay.json")
    late = [[time - 450 for time in row] for row in TIMES_US[1:]]
    assert packets(tmp_path / "replay.json") == late


@pytest.mark.parametrize("begin_us", [0, 1001])
def test_what_was_sent_later_is_left_out(tmp_path: Path, begin_us: int) -> None:
    shown = replay(begin_us=begin_us)
    object.__setattr__(shown, "end_ns", 800_000)
    shown.write(tmp_path / "replay.json")
    assert len(packets(tmp_path / "replay.json")) == (2 if begin_us == 0 else 0)


def test_a_run_without_a_replay_removes_that_of_the_run_before(tmp_path: Path) -> None:
    leave(tmp_path, "One.")
    assert (tmp_path / "replay.json").is_file()
    leave(tmp_path, None)
    assert not (tmp_path / "replay.json").exists()


def test_the_page_has_that_of_a_run_else_that_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "REFERENCE", tmp_path / "reference")
    leave(tmp_path / "results" / "a", None)
    assert "<script" not in index.build(tmp_path / "results").read_text()
    leave(tmp_path / "reference" / "a", "Theirs.")
    page = index.build(tmp_path / "results").read_text()
    assert "Theirs. Reference of 20" in page
    leave(tmp_path / "results" / "a", "Ours.")
    page = index.build(tmp_path / "results").read_text()
    assert "Ours. Run of 20" in page
    assert "Theirs" not in page


@pytest.mark.parametrize("bad", ["", "[]", "{}", "7"])
def test_a_replay_that_is_none_does_not_hide_the_page(
    bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "REFERENCE", tmp_path / "reference")
    leave(tmp_path / "results" / "a", "Ours.")
    (tmp_path / "results" / "a" / "replay.json").write_text(bad)
    page = index.build(tmp_path / "results").read_text()
    assert 'id="replay"' not in page
    assert "passed: 1 check" in page


def test_a_replay_is_data_to_a_browser(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    leave(tmp_path / "a", evil)
    page = index.build(tmp_path).read_text()
    assert page.count("<script") == 2
    assert "alert(1)</script>" not in page
