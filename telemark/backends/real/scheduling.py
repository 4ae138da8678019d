"""Lets a run in real time come before what else the machine does, so that it stalls less."""

import os
from pathlib import Path

FIRST = -20  # of nice(2): the most


def raise_priority(pid: int) -> None:
    """Let a process that leads its session, and what it will start, run before others.

    Where the kernel shares out time by sessions (sched(7), autogroup), nice values order only what
    is within one: then the session itself comes first. Not real-time scheduling: the kernel keeps
    50 ms of a second for all others (sched_rt_runtime_us), in one piece.
    """
    os.setpriority(os.PRIO_PROCESS, pid, FIRST)
    autogroup = Path(f"/proc/{pid}/autogroup")
    if autogroup.exists():
        autogroup.write_text(str(FIRST))
