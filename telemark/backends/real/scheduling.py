"""CPU scheduling of a run in real time: priority, and timeouts that exclude waiting for a CPU."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from telemark.errors import TestbedError

Output = TypeVar("Output")
Output_co = TypeVar("Output_co", covariant=True)
# Nice values, see nice(2). If there are too few CPUs, switches come first. Then senders are slowed
# down, instead of frames being lost in the sockets of switches.
SWITCH_PRIORITY, RUN_PRIORITY = -20, -10


def set_priority(pid: int, nice: int) -> None:
    """Set the nice value of a session leader and of the processes that it will start.

    If the kernel groups tasks by session (autogroup, see sched(7)), nice values apply only within a
    session. Therefore, the session itself also gets the priority. Real-time scheduling is
    unsuitable, because the kernel reserves 50 ms of each second for other tasks
    (sched_rt_runtime_us).
    """
    os.setpriority(os.PRIO_PROCESS, pid, nice)
    autogroup = Path(f"/proc/{pid}/autogroup")
    if autogroup.exists():
        autogroup.write_text(str(nice))


class Process(Protocol[Output_co]):
    """Process with an output, such as subprocess.Popen."""

    pid: int

    def communicate(self, *, timeout: float | None) -> tuple[Output_co, Any]: ...


def wait_for_output(process: Process[Output], timeout_s: float, name: str) -> Output:
    """Wait until a process exits; return its output. See wait_for()."""
    return wait_for(
        lambda left_s: process.communicate(timeout=left_s)[0], process.pid, timeout_s,
        f"{name}: did not exit",
    )  # fmt: skip


def wait_for(call: Callable[[float], Output], pid: int, timeout_s: float, problem: str) -> Output:
    """Wait for a process. `call` has a timeout in s, and may raise subprocess.TimeoutExpired.

    A loaded machine must cause no false timeout. Therefore, the timeout excludes time in which the
    threads of the process were runnable but did not run. On timeout, TestbedError is raised; its
    message contains `problem` and the excluded time. The process is not killed.
    """
    deadline_s, last_wait_s = time.monotonic() + timeout_s, runqueue_wait_s(pid)
    total_wait_s = 0.0
    while True:
        try:
            return call(max(deadline_s - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            wait_s = runqueue_wait_s(pid)
            more_s = wait_s - last_wait_s
            if more_s <= 0:
                raise TestbedError(
                    f"{problem} within {timeout_s:g} s, not counting {total_wait_s:.1f} s of "
                    "waiting for a CPU"
                ) from None
            last_wait_s, total_wait_s = wait_s, total_wait_s + more_s
            deadline_s += more_s


def runqueue_wait_s(pid: int) -> float:
    """Return how long all threads of a process have waited for a CPU, in s; 0 if it has exited.

    Reads field 2 of /proc/PID/task/TID/schedstat, see proc(5). Time in which a thread was blocked,
    e.g. on I/O, is not included.
    """
    wait_ns = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has exited
            wait_ns += int(thread.read_text().split()[1])
    return wait_ns / 1e9
