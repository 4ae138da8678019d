"""Busy loop that keeps a core awake, because wake-up latency would dominate RTT variations.

In a virtual machine, the host gives a halted core to other machines and returns it late.
"""

import os
import subprocess
import sys
from pathlib import Path

LAST_NICE = 19
LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"


class Awake:
    """Process that runs on an otherwise idle core until close() or until this process exits."""

    def __init__(self, core: int) -> None:
        command = [
            sys.executable,
            "-c",
            LOOP,
            str(os.getpid()),
        ]  # pass the parent id, because the parent may exit before the first check
        self._process = subprocess.Popen(command, start_new_session=True)
        os.sched_setaffinity(self._process.pid, {core})
        os.sched_setscheduler(self._process.pid, os.SCHED_IDLE, os.sched_param(0))
        group = Path(f"/proc/{self._process.pid}/autogroup")
        if (
            group.exists()
        ):  # A session has its own weight, even if it has only an idle process (sched(7)).
            group.write_text(f"{LAST_NICE}\n")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
