"""Append, Postcarding and Sketch-Merge, in virtual time.

The checks detect the faults of the published translator, and other faults.
"""

from pathlib import Path

import pytest
from scripts import failed_checks, run, samples, with_faults

SHORT = {
    "dta_append": ("--quick", "--reports", "128"),
    "dta_postcarding": ("--quick", "--flows", "20"),
    "dta_sketch": ("--quick",),
}
RUNS = {"dta_append": 6, "dta_postcarding": 2, "dta_sketch": 6}  # number of runs in each sweep
FAULTS = {
    "the wrap of a ring loses a batch": (
        "dta_append", "append.p4", "batch.slot + 1 == batch.batches ? 0 : batch.slot + 1",
        "batch.slot == batch.batches ? 0 : batch.slot + 1",
        "1-lists-of-16: wrong or missing entries"),
    "what is evicted goes to the slot of who evicts it": (
        "dta_postcarding", "postcarding.p4", "hdr.postcard.key = path.key;", "",
        "64-rows, 64 flows: flows with wrong memory"),
    "a column of one row is that of another": (
        "dta_sketch", "sketch_merge.p4", "|+| report.row_3", "|+| report.row_2",
        "64 columns of 4: counters that differ from the sum"),
}  # fmt: skip


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a translator with all faults.

    Each fault affects the reports of a different experiment.
    """
    faults = [(file, right, wrong) for _, file, right, wrong, _ in FAULTS.values()]
    return with_faults(tmp_path_factory.mktemp("faulty"), faults, "dta/translator.p4")


@pytest.mark.parametrize("name", SHORT)
def test_all_checks_pass(name: str, tmp_path: Path) -> None:
    done = run(name, "--time", "virtual", *SHORT[name], "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(samples(tmp_path)) > 4
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert len([*(tmp_path / ".runs").iterdir()]) == RUNS[name]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_translator_is_found_out(fault: str, faulty: str, tmp_path: Path) -> None:
    name, *_, said = FAULTS[fault]
    done = run(name, "--time", "virtual", *SHORT[name], "--program", faulty,
               "--out", str(tmp_path / "out"))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(check.startswith(said) for check in failed_checks(tmp_path / "out"))
