"""Key-Write compared with theory, in virtual time: deviations are detected."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scripts import module, run, samples
from virtual_networks import virtually

from collectors.dta import key_write
from collectors.dta.hashes import Words, murmur3
from telemark.results.report import Check
from telemark.session.run import Run

SHORT = ("--time", "virtual", "--quick", "--slots", "256", "--model-slots", "8192")


def test_memory_is_the_model_s_and_answers_are_as_theory_says(tmp_path: Path) -> None:
    done = run("dta_keywrite", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert {row["panel"] for row in rows} == {"load", "age", "written", "absent"}
    assert sum(row["source"] == "translator" for row in rows) == 3 * 7
    assert (tmp_path / "dta_keywrite.png").stat().st_size > 10_000
    assert len([*(tmp_path / ".runs").iterdir()]) == 3


@pytest.mark.parametrize("is_right", [True, False])
def test_a_translator_with_other_checksums_is_found(
    is_right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = module("dta_keywrite")
    options = argparse.Namespace(slots=256, rate=5000, program=experiment.PROGRAM)
    if not is_right:
        monkeypatch.setattr(key_write, "checksums", cut_from_the_slot)

    async def main(run: Run) -> list[Check]:
        data = experiment.reports(options.slots, np.random.default_rng(1))
        _, checks = await experiment.translated(2, *data, options, run)
        return checks

    checks = {check.name: check.passed for check in virtually(tmp_path, main)}
    said = "copies-2: bytes of memory that differ from the model, and wrong answers"
    assert {name for name, passed in checks.items() if not passed} == (
        set() if is_right else {said}
    )


def together(keys: Words, copies: int, count: int) -> np.ndarray:
    """Return the slots of dependent hash functions, such as CRCs.

    The slots of the copies differ by constants. So keys that collide in one copy collide in all
    copies.
    """
    first = murmur3(keys, 1)
    constants = np.arange(copies, dtype=np.uint32)[:, np.newaxis] * np.uint32(0x77073096)
    return ((first ^ constants) & np.uint32(count - 1)).astype(np.int64)


def cut_from_the_slot(keys: Words, bits: int) -> Words:
    """Return checksums whose bits come from the hash that also gives the slot."""
    return murmur3(keys, 0x9E3779B1) & np.uint32((1 << bits) - 1) | np.uint32(1 << 31)


@pytest.mark.parametrize(("name", "fault"), [("slots", together), ("checksums", cut_from_the_slot)])
def test_hashes_that_depend_on_each_other_are_found(
    name: str, fault: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = module("dta_keywrite")

    def agrees() -> bool:
        rng = np.random.default_rng(1)
        points = experiment.modelled(2, 1 << 12, rng) + experiment.checksum_points(1 << 12, rng)
        check = experiment.agreement_check("all", [point.chance for point in points])
        return bool(check.passed)

    assert agrees()
    monkeypatch.setattr(key_write, name, fault)
    assert not agrees()


@pytest.mark.parametrize("wrong", ["1000", "128", "33554432", "0", "x"])
def test_slots_that_cannot_be_are_refused(wrong: str) -> None:
    with pytest.raises((argparse.ArgumentTypeError, ValueError)):
        module("dta_keywrite").power_of_two(wrong)
