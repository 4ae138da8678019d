"""Message for the user that says why a worker process of a sweep died."""

import resource
import signal
from pathlib import Path

from telemark.errors import TestbedError

TRIES = 3  # a run is given up after its process died this number of times


class CrashError(Exception):
    """A run crashed its process each time: exit status 3, as it is neither the user's mistake nor
    the machine's.
    """


def give_up(run: str, exit_code: int | None, oom_kills_before: int) -> Exception:
    """Return the error of a run whose process died TRIES times, the last time as described."""
    kind = TestbedError if exit_code == -signal.SIGKILL else CrashError
    cause = describe_death(exit_code, oom_kills_before)
    return kind(f"{run}its process died {TRIES} times, the last time of {cause}")


def oom_kills() -> int:
    """Return how many processes the kernel's out-of-memory killer has killed since boot.

    Reads oom_kill of /proc/vmstat, see proc(5); 0 where the kernel does not report it.
    """
    lines = Path("/proc/vmstat").read_text().splitlines()
    return int(dict(line.split() for line in lines).get("oom_kill", 0))


def describe_death(exit_code: int | None, oom_kills_before: int) -> str:
    """Describe the death of a child process that this process has waited for.

    `exit_code`: as of multiprocessing and subprocess, -N for signal N, None for a process that
    still exists. `oom_kills_before`: oom_kills() when it was started.
    """
    if exit_code is None or exit_code >= 0:
        return f"it exited with status {exit_code}"
    number = -exit_code
    name = signal.Signals(number).name if number in {*signal.Signals} else f"signal {number}"
    if number != signal.SIGKILL:
        return f"{name} ({signal.strsignal(number)})"
    is_oom = oom_kills() > oom_kills_before
    who = "from the kernel's out-of-memory killer" if is_oom else "from another process"
    return f"{name}, {who}; {_memory()}; use fewer --jobs if memory is short"


def _memory() -> str:
    largest_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available, total = (
        int(lines[name].split()[0]) // 1024 for name in ("MemAvailable", "MemTotal")
    )
    return (
        f"the largest process used {largest_mb:,} MB, {available:,} of {total:,} MB are available"
    )
