"""Table writes in parallel with packets lose no entry and tear none. A missing lock is detected."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RACE = 66  # exit status of a process in which ThreadSanitizer found a race
HERE = Path(__file__).parent
# Older versions of ThreadSanitizer need addresses that are not randomised.
COMMAND = ("setarch", "-R", "unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")


def races(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    tsan = subprocess.run(["cc", "-print-file-name=libtsan.so"], capture_output=True, text=True,
                          check=True).stdout.strip()  # fmt: skip
    environment = {
        "TSAN_OPTIONS": f"halt_on_error=1 exitcode={RACE}",
        "LD_PRELOAD": tsan,
        "TMPDIR": folder,  # a race kills the process, which leaves its files there
    }
    command = [*COMMAND, "env", *(f"{k}={v}" for k, v in environment.items()), sys.executable,
               str(HERE / "races.py"), *arguments]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=300,
                          check=False)  # fmt: skip


def test_no_write_races_with_packets(tmp_path: Path) -> None:
    run = races(tmp_path)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]


# A function for each kind of access: to an entry, to the set of entries, to an entry that packets
# also write, to a batch, to a setting.
@pytest.mark.parametrize("function", ["table_modify", "show", "apply_in_slices", "each_change",
                                      "engine_set_queue"])  # fmt: skip
def test_a_lost_lock_is_found(function: str, tmp_path: Path) -> None:
    run = races(tmp_path, function)
    assert run.returncode == RACE, run.stdout[-4000:] + run.stderr[-4000:]
    assert "data race" in run.stderr
