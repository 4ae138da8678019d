"""Records lost for one lost packet, in virtual time; a switch that does it wrongly is found out."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripts import failed_checks, faulty_program, module, run, samples

SHORT = ("--time", "virtual", "--quick", "--rate", "10000")


def test_records_that_each_way_loses(tmp_path: Path) -> None:
    done = run("roce_loss", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    lost = {row["way"]: int(row["lost"]) for row in samples(tmp_path)}
    assert lost["UC"] == 1
    assert lost["resync"] == 2 + 10  # of a round trip
    assert lost["resync, NAK lost"] <= 2 + 2 * 64 + 3 * 11
    assert (
        100_000 + 1000 < lost["hold off 100,000"] < 100_000 + 2002
    )  # answered after a millisecond
    assert lost["no resync"] == 1 << 24
    assert (tmp_path / "roce_loss.png").stat().st_size > 10_000


def test_more_than_a_switch_waits_for_is_refused(tmp_path: Path) -> None:
    done = run("roce_loss", *SHORT[:3], "--rate", "20000000", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "--rate 20000000: a round trip holds more records" in done.stderr
    assert "take 64000 at most" in done.stderr


def test_a_switch_that_goes_on_one_too_far_is_found_out(tmp_path: Path) -> None:
    program = faulty_program(
        tmp_path, "answers.p4", "expected = hdr.bth.psn;", "expected = hdr.bth.psn + 1;",
        "roce/roce.p4",
    )  # fmt: skip
    done = run("roce_loss", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    # A probe gets the session going, and the switch still knows what was lost: captures tell.
    assert failed_checks(tmp_path / "out") == {
        "resync, 10,000 packets/s: records lost, against captures"
    }


@pytest.mark.parametrize(
    ("written", "by_link", "shown"), [(2323, 19, 3), (2343, 1, 1), (2342, 1, 2)]
)
def test_of_records_that_are_lost_in_a_row_the_figure_counts_one(
    written: int, by_link: int, shown: int
) -> None:
    """In real time a link loses all of some milliseconds: the law is of one."""
    experiment = module("roce_loss")
    outcome: Any = SimpleNamespace(counts=SimpleNamespace(accepted=Counter(WRITE_ONLY=written)))
    nothing: Any = None
    found = experiment.Found(
        "resync", 1000, 2344, by_link, 2344, 0, 0, outcome, None, None, nothing
    )
    assert found.lost_for_one == shown
    left, right = experiment.draw([found]).axes
    assert [patch.get_width() for patch in left.patches] == [shown]
    assert right.lines[1].get_ydata().tolist() == [shown]
