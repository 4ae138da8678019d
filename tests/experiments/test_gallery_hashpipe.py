"""experiments/gallery_hashpipe.py equals its model, and detects faults of the program."""

import shutil
from pathlib import Path

import loaded
import pytest
import scripts

SCRIPT = scripts.EXPERIMENTS / "gallery_hashpipe.py"
PROGRAM = scripts.EXPERIMENTS.parent / "p4src" / "gallery" / "hashpipe.p4"


def changed(folder: Path, right: str, wrong: str) -> Path:
    """Write a copy of the script that runs a copy of its program with one change."""
    text = PROGRAM.read_text()
    assert text.count(right) == 1
    shutil.copytree(PROGRAM.parents[1], folder / "p4src")
    program = folder / "p4src" / "gallery" / "mine.p4"
    program.write_text(text.replace(right, wrong))
    (folder / "_venv.py").symlink_to(scripts.EXPERIMENTS / "_venv.py")
    script = folder / "mine.py"
    script.write_text(SCRIPT.read_text().replace("p4src/gallery/hashpipe.p4", str(program)))
    return script


@pytest.mark.parametrize("seed", [11, 12])
def test_the_switch_equals_the_model(seed: int, tmp_path: Path) -> None:
    done = loaded.run(SCRIPT, "--time", "virtual", "--quick", "--seed", str(seed), "--out",
                      str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("stored_count < count", "stored_count <= count"),
        ("stored_count + count", "stored_count + 1"),
        ("number == 1 || ", ""),
        ("count = stored_count;", "count = 0;"),
    ],
)
def test_a_fault_of_the_program_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    script = changed(tmp_path, right, wrong)
    done = loaded.run(script, "--time", "virtual", "--quick", "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "slots that differ from the model" in scripts.failed_checks(tmp_path / "out")
