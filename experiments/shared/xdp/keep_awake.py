"""Keeps a core awake: where it may sleep, what it costs to wake it is most of a round trip's noise.

In a virtual machine a core that halts is given to others, and comes back when the host likes.
"""

import os
import subprocess
import sys
from pathlib import Path

LAST_NICE = 19
LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"


class Awake:
    """A process that runs on a core whenever nobody else wants to, until close() or our end."""

    def __init__(self, core: int) -> None:
        command = [sys.executable, "-c", LOOP, str(os.getpid())]  # which may end before it asks
        self._process = subprocess.Popen(command, start_new_session=True)
        os.sched_setaffinity(self._process.pid, {core})
        os.sched_setscheduler(self._process.pid, os.SCHED_IDLE, os.sched_param(0))
        group = Path(f"/proc/{self._process.pid}/autogroup")
        if group.exists():  # sched(7): a session has its share as a whole, of one idle process, too
            group.write_text(f"{LAST_NICE}\n")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
