"""A controller with wrong block arithmetic is detected.

Ground truth has its own arithmetic.
"""

import subprocess
import sys
from pathlib import Path

from scripts import EXPERIMENTS, failed_checks

WRONG = """
import os, runpy, sys
from controllers.ampm.schedule import Schedule
Schedule.block_shift = property(lambda schedule: schedule.block_us.bit_length())
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_wrong_blocks_are_found_out(tmp_path: Path) -> None:
    """A check fails if controller and switches use blocks that are twice as long as requested."""
    script = str(EXPERIMENTS / "ampm_loss.py")
    options = ("--time", "virtual", "--quick", "--loss", "5", "--blocks", "3", "--method", "step",
               "--out", str(tmp_path))  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", WRONG, script, *options],
        capture_output=True, text=True, timeout=300, check=False, cwd=EXPERIMENTS.parent,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path) == {"loss 5 %, step: max loss error per block (packets)"}
