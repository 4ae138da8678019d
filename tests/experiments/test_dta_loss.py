"""Reports that are lost on the path to memory, in virtual time; a faulty ring is detected."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from scripts import failed_checks, faulty_program, module, run, samples

from telemark.results.goodness_of_fit import binomial_p_value

SHORT = ("--time", "virtual", "--loss", "0.05", "--reports", "1000")


def test_reports_that_each_way_loses(tmp_path: Path) -> None:
    done = run("dta_loss", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    lost = {row["recovery"]: int(row["lost"]) for row in samples(tmp_path)}
    assert binomial_p_value(lost["not sent again"], 1000, 0.05) > 0.001
    assert lost["sent again"] < 20 < lost["not sent again"]
    assert lost["UC"] < lost["resync"] < lost["no resync"]
    assert lost["no resync"] > 800
    assert (tmp_path / "dta_loss.png").stat().st_size > 10_000


def test_a_reporter_that_sends_the_wrong_ones_again_is_found_out(tmp_path: Path) -> None:
    program = faulty_program(
        tmp_path, "reporter_ring.p4", "resend.next = first + unknown;",
        "resend.next = first + unknown + 1;", "dta/reporter.p4",
    )  # fmt: skip
    done = run("dta_loss", *SHORT, "--quick", "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    # All counters agree on the number of retransmissions. Only the comparison with theory shows
    # that the retransmissions did not help.
    theory = "reports lost: p-value of 3 points under theory"
    assert failed_checks(tmp_path / "out") == {theory}


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--reports", "100000", "100600 reports: expected at most 65536, because each needs its"),
        ("--loss", "0.6", "--loss 0.6: expected at most 0.5; with more loss, missing"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, option: str, value: str, said: str) -> None:
    done = run("dta_loss", *SHORT, option, value, "--out", str(tmp_path))
    assert done.returncode == 2
    assert said in done.stderr
    assert not [*tmp_path.iterdir()]


def test_panels_fill_the_figure_if_some_modes_have_no_runs() -> None:
    found = {("sent again", 0.1): SimpleNamespace(lost=1, lossy=100),
             ("both links", 0.1): SimpleNamespace(lost=50, lossy=100)}  # fmt: skip
    figure = module("dta_loss").draw(found, 20_000)
    figure.draw_without_rendering()
    assert all(axes.get_position().width > 0.35 for axes in figure.axes)
