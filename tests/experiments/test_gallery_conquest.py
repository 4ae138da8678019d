"""experiments/gallery_conquest.py equals its model, and detects faults of the program."""

from pathlib import Path

import pytest
import scripts

CELLS, MARKS = "cells that differ from the model", "marks that differ from the model"


@pytest.mark.parametrize("seed", [11, 12])
def test_cells_and_marks_equal_the_model(seed: int, tmp_path: Path) -> None:
    done = scripts.run("gallery_conquest", "--time", "virtual", "--quick", "--seed", str(seed),
                       "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "failing"),
    [
        ("bit<3> CLEANING = 7", "bit<3> CLEANING = 6", CELLS),
        ("column + 1 == COLUMNS ? 0 : column + 1", "0", CELLS),
        ("first < second ? first : second", "first", MARKS),
        ("window - (arrived_us >> WINDOW_SHIFT)", "0", MARKS),
        (" && delay_us >= MIN_DELAY_US", "", MARKS),
    ],
)
def test_a_fault_of_the_program_is_found(
    right: str, wrong: str, failing: str, tmp_path: Path
) -> None:
    program = scripts.faulty_program(tmp_path, "conquest.p4", right, wrong, "gallery/conquest.p4")
    out = tmp_path / "out"
    done = scripts.run("gallery_conquest", "--time", "virtual", "--quick", "--program", program,
                       "--out", str(out))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert failing in scripts.failed_checks(out)
