"""Threads of a virtual network access each other's data only in a defined order.

If the C code is broken, the test detects this.
"""

import os
import subprocess
import sys
from pathlib import Path

RACE = 66  # exit status of a process in which ThreadSanitizer found a race
RACES = Path(__file__).parent / "thread_races.py"


def races(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    tsan = subprocess.run(["cc", "-print-file-name=libtsan.so"], capture_output=True, text=True,
                          check=True).stdout.strip()  # fmt: skip
    environment = {
        **os.environ,
        "TSAN_OPTIONS": f"halt_on_error=1 exitcode={RACE}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "LD_PRELOAD": tsan,
        "TMPDIR": str(folder),  # a race kills the process, which leaves its files there
    }
    # Older versions of ThreadSanitizer need addresses that are not randomised.
    command = ["setarch", "-R", sys.executable, str(RACES), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_threads_do_not_race(tmp_path: Path) -> None:
    run = races(tmp_path)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]


def test_a_frame_that_goes_to_a_partition_without_a_channel_is_found(tmp_path: Path) -> None:
    run = races(tmp_path, "broken")
    assert run.returncode == RACE, run.stdout[-4000:] + run.stderr[-4000:]
    assert "data race" in run.stderr
