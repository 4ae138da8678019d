"""Busy loop that keeps a core awake: wake-up latency would dominate the noise of round trips.

In a virtual machine, the host gives a halted core to others, and returns it late.
"""

import os
import subprocess
import sys
from pathlib import Path

LAST_NICE = 19
LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"


class Awake:
    """A process that runs on an otherwise idle core, until close() or the end of this process."""

    def __init__(self, core: int) -> None:
        command = [
            sys.executable,
            "-c",
            LOOP,
            str(os.getpid()),
        ]  # the parent may exit before the first check
        self._process = subprocess.Popen(command, start_new_session=True)
        os.sched_setaffinity(self._process.pid, {core})
        os.sched_setscheduler(self._process.pid, os.SCHED_IDLE, os.sched_param(0))
        group = Path(f"/proc/{self._process.pid}/autogroup")
        if (
            group.exists()
        ):  # sched(7): a session has a weight of its own, even with one idle process
            group.write_text(f"{LAST_NICE}\n")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
