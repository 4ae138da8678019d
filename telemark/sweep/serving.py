"""A process that does runs of a sweep, one after the other, as they come through a connection."""

import pickle
import signal
import sys
import time
from multiprocessing import spawn
from multiprocessing.connection import Connection
from pathlib import Path

from telemark.backends.real import isolation
from telemark.sweep.task import Known, execute, failed, packed

GRACE_S = 5.0  # until a process that was asked to end has to
TOLD_S = 0.2  # how often a process tells how far it is


def serve(connection: Connection, parent: int) -> None:
    """Do what comes, until the end; which the parent's end is, too.

    A pickled Task comes, with the folder to be made for its files. Lines of how far it is go back,
    and then its Outcome, packed.
    """
    isolation.end_with_parent(parent)
    known, reported_s = Known(), 0.0

    def tell(text: str) -> None:
        nonlocal reported_s
        if time.monotonic() - reported_s > TOLD_S:
            reported_s = time.monotonic()
            connection.send(text)

    try:
        isolation.interruptible(look_s=isolation.LOOK_S)
        # The terminal sends it to all: the parent ends us.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            task, place = connection.recv()
            place.mkdir()
            connection.send(packed(execute(pickle.loads(task), place, tell, known)))
    except (isolation.Interrupted, EOFError):
        isolation.end_interrupt()


def _serve_script(descriptor: str, parent: str, script: str) -> None:
    """Become what Python would have made for an experiment's script, and do its runs.

    As multiprocessing loads scripts in its processes: as `__main__`, but named `__mp_main__`, which
    is another name of `__main__` where runs are asked for. So both find what the script defines.
    """
    sys.argv = [script]
    sys.path[0] = str(Path(script).parent)
    connection = Connection(int(descriptor))
    try:
        spawn.import_main_path(script)
    except Exception as error:
        connection.send(packed(failed(error)))
    else:
        serve(connection, int(parent))


if __name__ == "__main__":
    _serve_script(*sys.argv[1:])
