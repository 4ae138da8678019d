"""Worker process of a sweep. It receives runs over a connection and executes them."""

import pickle
import resource
import signal
import sys
import time
from multiprocessing import spawn
from multiprocessing.connection import Connection
from pathlib import Path

from telemark.backends.real import isolation
from telemark.errors import TestbedError
from telemark.sweep.task import CompiledPrograms, execute, failed_outcome, serialize
from telemark.watch.publisher import Publisher

TRIES = 3  # number of attempts until the error of give_up() is raised


class CrashError(Exception):
    """Each attempt of a run crashed its process.

    The exit status is 3, because neither the user nor the machine is the cause.
    """


def give_up(run: str, exit_code: int | None, oom_kills_before: int) -> Exception:
    """Return the error of a run whose process died TRIES times.

    The arguments describe the last death.
    """
    kind = TestbedError if exit_code == -signal.SIGKILL else CrashError
    cause = describe_death(exit_code, oom_kills_before)
    return kind(f"{run}its process died {TRIES} times, the last time of {cause}")


def oom_kills() -> int:
    """Return the number of processes that the out-of-memory killer has killed since boot.

    Reads oom_kill in /proc/vmstat, see proc(5); returns 0 if the kernel does not report it.
    """
    lines = Path("/proc/vmstat").read_text().splitlines()
    return int(dict(line.split() for line in lines).get("oom_kill", 0))


def describe_death(exit_code: int | None, oom_kills_before: int) -> str:
    """Describe the death of a child process.

    `exit_code` has the meaning of multiprocessing and subprocess: -N for signal N. It is None for a
    process that still exists. `oom_kills_before` is the value of oom_kills() when the process was
    started.
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


GRACE_S = 5.0  # time between SIGTERM and SIGKILL to a process
REPORT_S = 0.2  # interval of progress reports


def serve(connection: Connection, parent: int, publisher: Publisher | None = None) -> None:
    """Execute tasks until the connection or the parent process ends.

    Receives pairs: a pickled Task, and the path of a folder. Creates this folder for the run. Sends
    lines of progress, and then the serialized Outcome.
    """
    isolation.end_with_parent(parent)
    programs, reported_s = CompiledPrograms(), 0.0

    def report_progress(text: str) -> None:
        nonlocal reported_s
        if time.monotonic() - reported_s > REPORT_S:
            reported_s = time.monotonic()
            connection.send(text)

    try:
        isolation.interruptible(look_s=isolation.LOOK_S)
        # On Ctrl-C, the terminal sends SIGINT to all processes. This process ignores SIGINT,
        # because the parent process ends it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            task, folder = connection.recv()
            folder.mkdir()
            outcome = execute(pickle.loads(task), folder, report_progress, programs, publisher)
            connection.send(serialize(outcome))
    except (isolation.Interrupted, EOFError):
        isolation.end_interrupt()


def _serve_script(descriptor: str, parent: str, script: str) -> None:
    """Load an experiment's script as `__main__`. Then execute runs of the experiment.

    As in multiprocessing, the script is loaded as `__mp_main__`. In the parent, `__mp_main__` is an
    alias of `__main__`. So both processes find the definitions of the script.
    """
    sys.argv = [script]
    sys.path[0] = str(Path(script).parent)
    connection = Connection(int(descriptor))
    try:
        spawn.import_main_path(script)
    except Exception as error:
        connection.send(serialize(failed_outcome(error)))
    else:
        serve(connection, int(parent))


if __name__ == "__main__":
    _serve_script(*sys.argv[1:])
