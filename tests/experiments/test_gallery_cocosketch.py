"""experiments/gallery_cocosketch.py equals its model, and detects faults of the program."""

from pathlib import Path

import pytest
import scripts

BUCKETS = "buckets that differ from the model"


@pytest.mark.parametrize("seed", [11, 12])
def test_the_switch_equals_the_model(seed: int, tmp_path: Path) -> None:
    done = scripts.run("gallery_cocosketch", "--time", "virtual", "--quick", "--seed", str(seed),
                       "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "failing"),
    [
        ("count_2 < count_1", "count_2 <= count_1", BUCKETS),
        ("is_in_2 || ", "", BUCKETS),
        ("number * (bit<64>)(count_1 + 1)", "number * (bit<64>)count_1", BUCKETS),
        ("keys_2.write(index_2, key);", "", BUCKETS),
        ("random(number, 0, 0xFFFFFFFF);", "number = 0;", "mean of the random numbers"),
    ],
)
def test_a_fault_of_the_program_is_found(
    right: str, wrong: str, failing: str, tmp_path: Path
) -> None:
    program = scripts.faulty_program(
        tmp_path, "cocosketch.p4", right, wrong, "gallery/cocosketch.p4"
    )
    out = tmp_path / "out"
    done = scripts.run("gallery_cocosketch", "--time", "virtual", "--quick", "--program", program,
                       "--out", str(out))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(each.startswith(failing) for each in scripts.failed_checks(out))
