"""The loss experiment as its users run it: exact, honest about a miscount, clear about mistakes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "experiments" / "ampm_loss.py"
SHORT = ("--loss", "5", "--blocks", "2", "--block-us", "262144", "--rate", "2000")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_every_complete_block_is_exact(tmp_path: Path) -> None:
    done = run(*SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert all(check["passed"] for check in summary["checks"])
    rows = (tmp_path / "samples.csv").read_text().splitlines()
    assert len(rows) == 1 + 4 * 3  # four blocks, two of them complete, on three segments
    assert (tmp_path / "ampm_loss.png").stat().st_size > 10_000
    assert (tmp_path / "ampm_loss.svg").exists()


def test_a_switch_that_miscounts_is_found_out(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "p4src", tmp_path / "p4src")
    step = tmp_path / "p4src" / "ampm" / "step.p4"
    count = "arrivals.count("
    faulty = f"if (standard_metadata.ingress_global_timestamp[5:0] != 0) {count}"
    text = step.read_text()
    assert text.count(count) == 1
    step.write_text(text.replace(count, faulty))
    program = str(tmp_path / "p4src" / "ampm" / "ampm.p4")
    done = run(*SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    failed = {check["name"] for check in summary["checks"] if not check["passed"]}
    assert "loss 5 %, s1-s2: largest error of a block" in failed
    assert "loss 5 %, end to end: largest error of a block" not in failed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--loss", "150"), "--loss"),
        (("--colour", "red"), "--colour"),
        (("--block-us", "1000"), "power of two"),
        (("--block-us", "32768"), "guard time"),
        (("--rate", "0"), "--rate"),
        (("--program", "no/such.p4"), "no/such.p4"),
    ],
)
def test_a_mistake_gets_one_clear_line(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    done = run(*arguments, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "summary.json").exists()
