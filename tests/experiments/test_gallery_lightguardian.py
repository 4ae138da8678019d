"""experiments/gallery_lightguardian.py equals its model, and detects faults of the program."""

from pathlib import Path

import pytest
import scripts

WRONG = "packets whose sketchlet differs from the model"


@pytest.mark.parametrize("seed", [11, 12])
def test_the_sketchlets_equal_the_model(seed: int, tmp_path: Path) -> None:
    done = scripts.run("gallery_lightguardian", "--time", "virtual", "--quick",
                       "--seed", str(seed), "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if (sum <= least) {", "if (sum < least) {"),
        ("windows.write(drawn, window);", ""),
        ("largest < value", "largest > value"),
        ("sums_1.apply(meta, meta.column_1, least", "sums_1.apply(meta, meta.column_0, least"),
    ],
)
def test_a_fault_of_the_program_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    program = scripts.faulty_program(
        tmp_path, "lightguardian.p4", right, wrong, "gallery/lightguardian.p4"
    )
    out = tmp_path / "out"
    done = scripts.run("gallery_lightguardian", "--time", "virtual", "--quick",
                       "--program", program, "--out", str(out))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert WRONG in scripts.failed_checks(out)
