"""Time limits for the ends of processes, which a machine that has other work does not use up."""

import contextlib
import subprocess
import time
from pathlib import Path
from typing import AnyStr

from telemark.errors import TestbedError


def wait_for_output(process: "subprocess.Popen[AnyStr]", limit_s: float, who: str) -> AnyStr:
    """What a process that was told to end says until it has.

    Of the limit's seconds are none in which its threads could have run, and others did. Raises
    TestbedError, with how long that was, and leaves the process as it is.
    """
    deadline_s, before_s, waited_s = time.monotonic() + limit_s, runqueue_wait_s(process.pid), 0.0
    while True:
        try:
            return process.communicate(timeout=max(deadline_s - time.monotonic(), 0))[0]
        except subprocess.TimeoutExpired:
            now_s = runqueue_wait_s(process.pid)
            more_s = now_s - before_s
            if more_s <= 0:
                raise TestbedError(
                    f"{who} hangs: it did not end within {limit_s:g} s (and {waited_s:.1f} s in "
                    "which it waited for a processor)"
                ) from None
            before_s, waited_s, deadline_s = now_s, waited_s + more_s, deadline_s + more_s


def runqueue_wait_s(pid: int) -> float:
    """For how long the threads of a process have waited for a processor so far, s, in all.

    Not for anything else: proc(5), schedstat. 0 where the process has ended.
    """
    waited_ns = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            waited_ns += int(thread.read_text().split()[1])
    return waited_ns / 1e9
