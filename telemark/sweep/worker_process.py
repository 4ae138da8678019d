"""Worker process that executes runs of a sweep, received through a connection."""

import pickle
import signal
import sys
import time
from multiprocessing import spawn
from multiprocessing.connection import Connection
from pathlib import Path

from telemark.backends.real import isolation
from telemark.sweep.task import CompiledPrograms, execute, failed_outcome, serialize

GRACE_S = 5.0  # between SIGTERM and SIGKILL of a process
REPORT_S = 0.2  # interval of progress reports


def serve(connection: Connection, parent: int) -> None:
    """Execute tasks until the connection or the parent process ends.

    Receives pairs of a pickled Task and the folder to create for its files. Sends lines of
    progress, and then the serialized Outcome.
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
        # The terminal sends SIGINT to all processes; the parent ends this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            task, folder = connection.recv()
            folder.mkdir()
            outcome = execute(pickle.loads(task), folder, report_progress, programs)
            connection.send(serialize(outcome))
    except (isolation.Interrupted, EOFError):
        isolation.end_interrupt()


def _serve_script(descriptor: str, parent: str, script: str) -> None:
    """Load an experiment's script as `__main__`, and execute its runs.

    Like the processes of multiprocessing, it loads the script as `__mp_main__`, an alias of
    `__main__` in the parent, so that both find the definitions of the script.
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
