"""experiments/starter.py is correct in real and virtual time, also as a copy; it detects faults."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loaded
import pytest
import scripts

PROGRAM = scripts.EXPERIMENTS.parent / "p4src" / "count_min" / "count_min.p4"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of a small run in virtual time."""
    folder = tmp_path_factory.mktemp("starter")
    done = scripts.run("starter", "--quick", "--time", "virtual", "--out", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_estimates_are_as_theory_has_them(quick: Path) -> None:
    for width, eps in ((28, 0.1), (55, 0.05)):
        rows = [row for row in scripts.samples(quick) if int(row["width"]) == width]
        packets = [int(row["packets"]) for row in rows]
        errors = [int(row["estimate"]) - int(row["packets"]) for row in rows]
        assert packets == [-(-2000 // number) for number in range(1, 101)]
        assert min(errors) >= 0
        assert max(errors) > 0  # some flows share counters; otherwise the test would show nothing
        assert sum(error > eps * sum(packets) for error in errors) <= 0.0183 * 100


def test_real_time_finds_the_same_to_the_packet(tmp_path: Path) -> None:
    """Real time gives the same samples as virtual time, for each packet.

    The test runs only one of the two networks of a small run, because each network has six
    switches.
    """
    script = copied(tmp_path, "many = (0.1, 0.05) if", "many = (0.1,) if")
    few = ("--quick", "--flows", "20", "--rate", "5000")
    for time in ("real", "virtual"):
        done = loaded.run(script, *few, "--time", time, "--out", str(tmp_path / time))
        assert done.returncode == 0, done.stdout + done.stderr
    real, virtual = ((tmp_path / time / "samples.csv").read_text() for time in ("real", "virtual"))
    assert real == virtual
    assert len(real.splitlines()) == 1 + 20


def copied(folder: Path, right: str, wrong: str) -> Path:
    """Write a copy of the script with one change, next to the module that it imports first."""
    (folder / "_venv.py").symlink_to(scripts.EXPERIMENTS / "_venv.py")
    text = (scripts.EXPERIMENTS / "starter.py").read_text()
    assert text.count(right) == 1
    script = folder / "mine.py"
    script.write_text(text.replace(right, wrong))
    return script


def with_program(folder: Path, right: str, wrong: str) -> Path:
    """Write a copy of the script, with a copy of its program that has one change."""
    text = PROGRAM.read_text()
    assert text.count(right) == 1
    shutil.copytree(PROGRAM.parents[1], folder / "p4src")
    program = folder / "p4src" / "count_min" / "mine.p4"
    program.write_text(text.replace(right, wrong))
    return copied(folder, "p4src/count_min/count_min.p4", str(program))


def by_any_python(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script from a shell, as users do."""
    return subprocess.run(
        ["/usr/bin/python3", script, *arguments],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "failed", "start"),
    [
        ("packets + 1", "packets + 8", "fraction with an error above eps N", by_any_python),
        ("else if (counts) {", "else if (counts && flow[0:0] == 0) {",
         "estimates below ground truth", loaded.run),
        ("hash_function.apply(flow, WIDTH, index)", "hash_function.apply(flow ^ 1, WIDTH, index)",
         "estimates below ground truth", loaded.run),
    ],
)  # fmt: skip
def test_a_fault_of_the_program_is_found(
    right: str, wrong: str, failed: str, start: Callable[..., Any], tmp_path: Path
) -> None:
    script = with_program(tmp_path, right, wrong)
    done = start(script, "--quick", "--time", "virtual", "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert {f"eps 0.1: {failed}", f"eps 0.05: {failed}"} <= scripts.failed_checks(tmp_path / "out")
