"""experiments/gallery_flowradar.py equals its model, and detects faults of the program."""

from pathlib import Path

import pytest
import scripts


@pytest.mark.parametrize("seed", [11, 12])
def test_the_switches_equal_the_model(seed: int, tmp_path: Path) -> None:
    done = scripts.run("gallery_flowradar", "--time", "virtual", "--quick", "--seed", str(seed),
                       "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("word | flag", "flag"),
        ("is_new = true;", "is_new = counted && number == 1;"),
        ("flows ^ flow", "flow"),
        ("packets + 1", "packets + (is_new ? 32w1 : 0)"),
    ],
)
def test_a_fault_of_the_program_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    program = scripts.faulty_program(tmp_path, "flowradar.p4", right, wrong,
                                     "gallery/flowradar.p4")  # fmt: skip
    out = tmp_path / "out"
    done = scripts.run("gallery_flowradar", "--time", "virtual", "--quick", "--program", program,
                       "--out", str(out))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "cells that differ from the model" in scripts.failed_checks(out)
