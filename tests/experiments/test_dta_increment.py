"""Key-Increment compared with the theory of count-min, in virtual time: deviations are detected."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts import module, run, samples
from virtual_networks import virtually

from collectors.dta import key_increment
from collectors.dta.hashes import Words, slots
from telemark.results.report import Check
from telemark.session.run import Run

SIZES = np.ceil(40 / np.arange(1, 31)).astype(np.int64)


def test_counters_are_the_model_s_and_errors_as_theory_says(tmp_path: Path) -> None:
    done = run("dta_increment", "--time", "virtual", "--quick", "--sets", "20", "--out",
               str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["rows"] for row in samples(tmp_path)} >= {"1", "2", "4"}
    assert (tmp_path / "dta_increment.png").stat().st_size > 10_000
    assert len([*(tmp_path / ".runs").iterdir()]) == 2


def first_row(keys: Words, copies: int, count: int) -> np.ndarray[Any, Any]:
    """Return the slots of the first row for all rows, so that all rows have the same errors."""
    return np.repeat(slots(keys, 1, count), copies, axis=0)


@pytest.mark.parametrize(("fault", "is_right"), [(slots, True), (first_row, False)])
def test_rows_that_agree_with_each_other_are_found(
    fault: Callable[..., object], is_right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = module("dta_increment")
    monkeypatch.setattr(key_increment, "slots", fault)
    rng = np.random.default_rng(1)
    points, _ = experiment.modelled(2, 64, SIZES, 40, rng)
    keys = experiment.random_keys(len(SIZES), rng)
    assert experiment.agreement_check("x", [point.chance for point in points]).passed == is_right
    options = argparse.Namespace(rate=5000, program=experiment.PROGRAM)

    async def main(run: Run) -> list[Check]:
        checks: list[Check] = await experiment.translated(2, keys, SIZES, options, run)
        return checks

    failed = {check.name for check in virtually(tmp_path, main) if not check.passed}
    if is_right:
        assert not failed
    else:
        assert "rows-2: counters that differ from the model" in failed
