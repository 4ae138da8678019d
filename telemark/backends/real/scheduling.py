"""CPU scheduling of a run in real time: priority, and timeouts that exclude waiting for a CPU."""

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import AnyStr

from telemark.errors import TestbedError

HIGHEST_PRIORITY = -20  # nice value, see nice(2)


def raise_priority(pid: int) -> None:
    """Give a session leader, and the processes that it will start, the highest nice priority.

    If the kernel groups tasks by session (sched(7), autogroup), nice values apply only within a
    session. Therefore, the session itself gets the priority, too. Real-time scheduling is
    unsuitable, because the kernel reserves 50 ms of each second for other tasks
    (sched_rt_runtime_us).
    """
    os.setpriority(os.PRIO_PROCESS, pid, HIGHEST_PRIORITY)
    autogroup = Path(f"/proc/{pid}/autogroup")
    if autogroup.exists():
        autogroup.write_text(str(HIGHEST_PRIORITY))


def wait_for_output(process: "subprocess.Popen[AnyStr]", timeout_s: float, name: str) -> AnyStr:
    """Wait until a process exits; return its output.

    The time during which the process's threads were runnable but not running extends the timeout,
    so that a loaded machine causes no false timeout. On timeout, TestbedError is raised with that
    time; the process is not killed.
    """
    deadline_s, last_wait_s = time.monotonic() + timeout_s, runqueue_wait_s(process.pid)
    total_wait_s = 0.0
    while True:
        try:
            return process.communicate(timeout=max(deadline_s - time.monotonic(), 0))[0]
        except subprocess.TimeoutExpired:
            wait_s = runqueue_wait_s(process.pid)
            more_s = wait_s - last_wait_s
            if more_s <= 0:
                raise TestbedError(
                    f"{name}: did not exit within {timeout_s:g} s, not counting "
                    f"{total_wait_s:.1f} s of waiting for a CPU"
                ) from None
            last_wait_s, total_wait_s = wait_s, total_wait_s + more_s
            deadline_s += more_s


def runqueue_wait_s(pid: int) -> float:
    """Return the total run-queue wait of a process's threads, in seconds; 0 if it has exited.

    Reads /proc/PID/task/TID/schedstat (field 2), see proc(5). Time blocked on I/O is not included.
    """
    wait_ns = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has exited
            wait_ns += int(thread.read_text().split()[1])
    return wait_ns / 1e9
